// How two series of numbers go together. Nothing where that has no meaning.
#ifndef MOIETY_KERNEL_HOST_CLAIMS_CORRELATION_H_
#define MOIETY_KERNEL_HOST_CLAIMS_CORRELATION_H_

#include <optional>
#include <vector>

namespace moiety::host {

/// Pearson's correlation of the ranks; ties share theirs.
std::optional<double> spearman(const std::vector<double>& a, const std::vector<double>& b);
/// Kendall's tau-b.
std::optional<double> kendall(const std::vector<double>& a, const std::vector<double>& b);
/// The share of pairs with equal sign; pairs with a zero are left out.
std::optional<double> sign_agreement(const std::vector<double>& a, const std::vector<double>& b);
/// The least-squares slope of log y against log x.
std::optional<double> log_slope(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace moiety::host

#endif  // MOIETY_KERNEL_HOST_CLAIMS_CORRELATION_H_
