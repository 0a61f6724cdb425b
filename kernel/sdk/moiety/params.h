// Declared parameters: the one place where a component or a stage says what it can be told. From the declaration come validation
// with positions, the typed Options, `moiety plugins info`, and the resolved recipe. Torch-free.
//
//   struct Options { std::int64_t k; Pick rule; };
//   static constexpr Parameter parameters[] = {
//       param<&Options::k>("k", 2, "experts a token runs").at_least(1).in("experts"),
//       param<&Options::rule>("rule", Pick::top, "which experts are taken")};
#ifndef MOIETY_PARAMS_H_
#define MOIETY_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "moiety/outputs.h"

namespace moiety {

class Component;

/// How long a stage works: {1.2e6, "tokens"}; units tokens, steps, epochs, examples, or "rest": to the end of the schedule that
/// the stage continues (its amount is 1).
struct Budget {
  double amount = 0;
  std::string unit;
};

/// Which layers of a model: `rule` is "all", "last 2", "every 2", or empty with the numbers (from 0) in `list`.
struct Layers {
  std::string rule;
  std::vector<std::int64_t> list;
};

/// Another stage whose artifact this one reads: a recipe gives its name, the engine hands over what is in it.
struct StageInput {
  std::string slot;  ///< the path of the key, by which the engine knows it; empty: not given
};

/// Windows of the corpus, as a recipe selects them: { domains = "law", tokens = "20k" }.
struct DataSelection {
  std::vector<std::string> domains, without;  ///< empty domains: all, but for those without
  std::int64_t tokens = 0;                    ///< at most so many, a prefix of more; 0: all
  double fraction = 1;                        ///< of each domain's windows, from the first on
  bool given = false;
};

/// What is measured one beside the other: sets of a task by name, or windows of the corpus under labels of their own:
/// ["test", "ood"], or { seen = { without = "law" }, unseen = { domains = "law" } }.
struct Sets {
  std::vector<std::string> names;
  std::vector<std::pair<std::string, DataSelection>> text;

  bool empty() const { return names.empty() && text.empty(); }
};

/// A share for each name: { en = 0.9, de = 0.1 }.
using Shares = std::vector<std::pair<std::string, double>>;

/// What a parameter was given; `monostate` for an optional one that was left out.
using Value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<std::string>,
                 Budget, Layers, StageInput, DataSelection, Sets, Shares, std::shared_ptr<Component>>;

enum class ParameterType {
  boolean,
  integer,
  number,
  text,
  choice,
  integers,
  texts,
  budget,
  layers,
  input,
  data,
  sets,
  shares,
  component
};

/// A default that can stand in a constexpr declaration.
struct Default {
  enum class Kind { absent, none, boolean, integer, number, text } kind = Kind::absent;  ///< absent: required; none: optional
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  const char* text = "";
};

struct Parameter {
  const char* name = "";  ///< a dot is a nested table: "schedule.warmup"
  ParameterType type = ParameterType::text;
  const char* doc = "";
  Default fallback;
  void (*set)(void* options, const Value& value) = nullptr;
  const char* unit = "";
  const char* kind = "";     ///< of a component
  const char* accepts = "";  ///< of an input: the kind of artifact, "model" or "clustering"
  const char* choices = "";  ///< "top, bottom, not_top": an underscore is written as a hyphen in recipes
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;

  constexpr Parameter range(double from, double to) const { return at_least(from).at_most(to); }
  constexpr Parameter at_least(double limit) const { return with_low(limit, false); }
  constexpr Parameter above(double limit) const { return with_low(limit, true); }
  constexpr Parameter at_most(double limit) const { return with_high(limit, false); }
  constexpr Parameter below(double limit) const { return with_high(limit, true); }
  constexpr Parameter in(const char* what) const {
    Parameter p = *this;
    p.unit = what;
    return p;
  }
  constexpr Parameter of(const char* artifact) const {
    Parameter p = *this;
    p.accepts = artifact;
    return p;
  }

 private:
  constexpr Parameter with_low(double limit, bool open) const {
    Parameter p = *this;
    p.low = limit;
    p.low_open = open;
    return p;
  }
  constexpr Parameter with_high(double limit, bool open) const {
    Parameter p = *this;
    p.high = limit;
    p.high_open = open;
    return p;
  }
};

/// An enum and its words, written once; at namespace scope. A word's hyphen is an underscore here.
#define MOIETY_CHOICE(Name, ...)                                                     \
  enum class Name { __VA_ARGS__ };                                                   \
  [[maybe_unused]] constexpr const char* choice_words(Name) { return #__VA_ARGS__; } \
  static_assert(true, "")

namespace detail {

template <class T>
struct MemberOf;
template <class C, class T>
struct MemberOf<T C::*> {
  using Owner = C;
  using Field = T;
};

template <class T>
struct Unwrapped {
  using type = T;
  static constexpr bool optional = false;
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
  static constexpr bool optional = true;
};

template <class T>
struct IsPart : std::false_type {};
template <class T>
struct IsPart<std::shared_ptr<T>> : std::true_type {};

template <class T>
constexpr ParameterType type_of() {
  if constexpr (std::is_same_v<T, bool>)
    return ParameterType::boolean;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return ParameterType::integer;
  else if constexpr (std::is_same_v<T, double>)
    return ParameterType::number;
  else if constexpr (std::is_same_v<T, std::string>)
    return ParameterType::text;
  else if constexpr (std::is_enum_v<T>)
    return ParameterType::choice;
  else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
    return ParameterType::integers;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return ParameterType::texts;
  else if constexpr (std::is_same_v<T, Budget>)
    return ParameterType::budget;
  else if constexpr (std::is_same_v<T, Layers>)
    return ParameterType::layers;
  else if constexpr (std::is_same_v<T, StageInput>)
    return ParameterType::input;
  else if constexpr (std::is_same_v<T, DataSelection>)
    return ParameterType::data;
  else if constexpr (std::is_same_v<T, Sets>)
    return ParameterType::sets;
  else if constexpr (std::is_same_v<T, Shares>)
    return ParameterType::shares;
  else {
    static_assert(
        IsPart<T>::value,
        "a parameter's field is bool, int64_t, double, string, an enum, a list of int64_t or string, "
        "Budget, Layers, StageInput, DataSelection, Sets, Shares, optional of these, or shared_ptr of a component kind");
    return ParameterType::component;
  }
}

// The owner is a parameter of its own: g++ 12 gives a function whose only link to an unnamed namespace is a pointer to member
// external linkage, so the setters of two files' Options would be merged.
template <class Owner, auto Member>
void set_field(void* options, const Value& value) {
  using Field = typename MemberOf<decltype(Member)>::Field;
  using Plain = typename Unwrapped<Field>::type;
  if (std::holds_alternative<std::monostate>(value)) return;
  Field& field = static_cast<Owner*>(options)->*Member;
  if constexpr (std::is_enum_v<Plain>)
    field = static_cast<Plain>(std::get<std::int64_t>(value));
  else if constexpr (IsPart<Plain>::value)
    field = std::static_pointer_cast<typename Plain::element_type>(std::get<std::shared_ptr<Component>>(value));
  else
    field = std::get<Plain>(value);
}

template <auto Member>
constexpr Parameter declare(const char* name, const char* doc) {
  using Field = typename MemberOf<decltype(Member)>::Field;
  using Plain = typename Unwrapped<Field>::type;
  Parameter p;
  p.name = name;
  p.doc = doc;
  p.type = type_of<Plain>();
  p.set = &set_field<typename MemberOf<decltype(Member)>::Owner, Member>;
  if constexpr (std::is_enum_v<Plain>) p.choices = choice_words(Plain{});
  if constexpr (IsPart<Plain>::value) p.kind = Plain::element_type::kind;
  if constexpr (Unwrapped<Field>::optional) p.fallback.kind = Default::Kind::none;
  return p;
}

}  // namespace detail

/// A parameter with a default; its type is the field's. A default that does not fit does not compile. Texts, budgets, layers and
/// parts take their default as text ("all", "15k examples", "balanced-kmeans").
template <auto Member, class D>
constexpr Parameter param(const char* name, D fallback, const char* doc) {
  using Plain = typename detail::Unwrapped<typename detail::MemberOf<decltype(Member)>::Field>::type;
  Parameter p = detail::declare<Member>(name, doc);
  if constexpr (std::is_same_v<Plain, bool>) {
    static_assert(std::is_same_v<D, bool>);
    p.fallback.kind = Default::Kind::boolean;
    p.fallback.boolean = fallback;
  } else if constexpr (std::is_same_v<Plain, std::int64_t>) {
    static_assert(std::is_integral_v<D> && !std::is_same_v<D, bool>);
    p.fallback.kind = Default::Kind::integer;
    p.fallback.integer = fallback;
  } else if constexpr (std::is_same_v<Plain, double>) {
    static_assert(std::is_arithmetic_v<D> && !std::is_same_v<D, bool>);
    p.fallback.kind = Default::Kind::number;
    p.fallback.number = fallback;
  } else if constexpr (std::is_enum_v<Plain>) {
    static_assert(std::is_same_v<D, Plain>);
    p.fallback.kind = Default::Kind::integer;
    p.fallback.integer = static_cast<std::int64_t>(fallback);
  } else {
    static_assert(std::is_convertible_v<D, const char*>);
    p.fallback.kind = Default::Kind::text;
    p.fallback.text = fallback;
  }
  return p;
}

/// A parameter that must be given.
template <auto Member>
constexpr Parameter required(const char* name, const char* doc) {
  static_assert(!detail::Unwrapped<typename detail::MemberOf<decltype(Member)>::Field>::optional);
  return detail::declare<Member>(name, doc);
}

/// A parameter that may be left out: its field is an optional, or keeps its initial value (a list, a part).
template <auto Member>
constexpr Parameter optional(const char* name, const char* doc) {
  Parameter p = detail::declare<Member>(name, doc);
  p.fallback.kind = Default::Kind::none;
  return p;
}

}  // namespace moiety

#endif  // MOIETY_PARAMS_H_
