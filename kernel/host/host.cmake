# The program `moiety`: discovery of plugins, the supervisor, the command line. Included by CMakeLists.txt beside it.
include(GNUInstallDirs)

add_library(moiety_host STATIC
  claims/known_counts.cpp
  command/arguments.cpp
  command/check.cpp
  command/dispatch.cpp
  command/plan.cpp
  command/plugins.cpp
  command/reading.cpp
  command/recipe.cpp
  command/run.cpp
  discovery/cache.cpp
  discovery/discovery.cpp
  discovery/locate.cpp
  discovery/probe.cpp
  discovery/search.cpp
  run/board.cpp
  run/data_client.cpp
  run/display.cpp
  run/dry_pass.cpp
  run/interrupts.cpp
  run/job.cpp
  run/process.cpp
  run/protocol.cpp
  run/provenance.cpp
  run/rate.cpp
  run/recorder.cpp
  run/report.cpp
  run/run.cpp
  run/session.cpp
  run/stage_end.cpp
  run/store.cpp
  run/supervisor.cpp
  run/worker.cpp)
target_link_libraries(moiety_host PUBLIC moiety_recipe moiety_registry moiety_base fmt::fmt nlohmann_json::nlohmann_json
  PRIVATE Boost::program_options)
target_compile_definitions(moiety_host PRIVATE MOIETY_VERSION="${PROJECT_VERSION}")
# From the program's own place, so that a moved checkout still finds its recipes and no absolute path is in the binary.
file(RELATIVE_PATH moiety_recipes_from_program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${CMAKE_SOURCE_DIR}/recipes)
set_property(SOURCE discovery/locate.cpp APPEND PROPERTY COMPILE_DEFINITIONS
  MOIETY_RECIPES_FROM_PROGRAM="${moiety_recipes_from_program}"
  MOIETY_INSTALLED_PLUGINS="${CMAKE_INSTALL_FULL_LIBDIR}/moiety")

add_executable(moiety main.cpp)
target_link_libraries(moiety PRIVATE moiety_host)
install(TARGETS moiety)

if(BUILD_TESTING)
  add_executable(moiety-fake-worker run/testing/fake_worker.cpp)
  target_link_libraries(moiety-fake-worker PRIVATE moiety_base moiety_registry nlohmann_json::nlohmann_json)
  add_executable(moiety-fake-data run/testing/fake_data.cpp)
  target_link_libraries(moiety-fake-data PRIVATE nlohmann_json::nlohmann_json)
endif()

moiety_add_test(host_run_test
  run/board_test.cpp
  run/display_test.cpp
  run/job_test.cpp
  run/process_test.cpp
  run/protocol_test.cpp
  run/rate_test.cpp
  run/stage_end_test.cpp
  run/store_test.cpp
  run/worker_test.cpp
  LINK moiety_host)
moiety_add_test(host_discovery_test
  discovery/discovery_test.cpp
  discovery/search_test.cpp
  LINK moiety_host)
moiety_add_test(host_program_test
  command/command_test.cpp
  run/failure_test.cpp
  run/plugin_trust_test.cpp
  run/choose_run_test.cpp
  run/results_test.cpp
  run/budgets_run_test.cpp
  run/resume_test.cpp
  run/run_test.cpp
  run/testing/sandbox.cpp
  LINK moiety_host)
if(BUILD_TESTING)
  add_dependencies(host_discovery_test moiety-fake-worker)
  add_dependencies(host_program_test moiety moiety-fake-worker moiety-fake-data)
endif()
