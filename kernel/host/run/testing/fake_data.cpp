// moiety-data without data, for the tests of the host. $FAKE_DATA: "" all is there; missing, unknown, unobtainable, slow.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

int main(int count, char** words) {
  using nlohmann::json;
  bool check_only = false;
  for (int i = 1; i < count; ++i) check_only = check_only || std::string(words[i]) == "--check-only";
  const std::string text((std::istreambuf_iterator<char>(std::cin)), {});
  if (const char* log = std::getenv("FAKE_LOG"))
    std::ofstream(log, std::ios::app) << (check_only ? "data check-only\n" : "data prepare\n");
  const char* how_text = std::getenv("FAKE_DATA");
  const std::string how = how_text == nullptr ? "" : how_text;
  const json request = json::parse(text, nullptr, false);
  if (!request.is_object() || !request.contains("corpus")) return 1;
  if (how == "unknown") {
    std::cerr << "unknown corpus `debian-9`; did you mean `debian-8`?\n";
    return 2;
  }
  if (how == "unobtainable") {
    std::cerr << "the package xyz cannot be obtained; type: sudo apt-get install xyz\n";
    return 3;
  }
  if (how == "missing" && check_only) {
    std::cout << json{{"missing", {"corpus debian-8@1"}}}.dump() << "\n";
    return 4;
  }
  std::cerr << "preparing: nothing to do\n";
  if (how == "slow") ::sleep(60);
  json tasks = json::array();
  for (const auto& task : request["tasks"])
    tasks.push_back({{"name", task}, {"version", 1}, {"path", "/nowhere"}, {"hash", "task-hash"}});
  std::cout << json{{"corpus", {{"name", "debian-8"}, {"version", 1}, {"path", "/nowhere/corpus"}, {"hash", "corpus-hash"}}},
                    {"tasks", tasks}}
                   .dump()
            << "\n";
  return 0;
}
