// What a component or a stage gives: metrics, losses, results. Declared beside its parameters. Torch-free.
//
//   static constexpr Output outputs[] = {metric("captured", "share", +1, "of the activations"), loss("balance", 0.01, "even use")};
#ifndef MOIETY_OUTPUTS_H_
#define MOIETY_OUTPUTS_H_

namespace moiety {

/// A metric, a loss or a result that a component or stage gives. A result is a typed value for other stages
/// (`${NAME.result}`), kept with the artifact.
struct Output {
  const char* name = "";
  const char* unit = "";
  int better = 0;  ///< +1 higher, -1 lower, 0 neither
  const char* doc = "";
  bool is_loss = false, is_result = false;
  double weight = 0;      ///< of a loss, unless the recipe says otherwise (`losses = { balance = 0.01 }`)
  const char* axes = "";  ///< recorded axes, "domain, set"
  const char* when = "";  ///< the metric exists when the stage's text has this key

  constexpr Output over(const char* names) const {
    Output o = *this;
    o.axes = names;
    return o;
  }
  constexpr Output with(const char* key) const {
    Output o = *this;
    o.when = key;
    return o;
  }
};
constexpr Output metric(const char* name, const char* unit, int better, const char* doc) {
  Output o;
  o.name = name;
  o.unit = unit;
  o.better = better;
  o.doc = doc;
  return o;
}
constexpr Output loss(const char* name, double weight, const char* doc) {
  Output o = metric(name, "nats", -1, doc);
  o.is_loss = true;
  o.weight = weight;
  return o;
}
constexpr Output result(const char* name, const char* unit, const char* doc) {
  Output o = metric(name, unit, 0, doc);
  o.is_result = true;
  return o;
}

}  // namespace moiety

#endif  // MOIETY_OUTPUTS_H_
