// The exact assignment of points to clusters whose sizes may differ by at most one.
#ifndef MOIETY_PLUGINS_CLUSTERERS_BALANCED_KMEANS_ASSIGNMENT_H_
#define MOIETY_PLUGINS_CLUSTERERS_BALANCED_KMEANS_ASSIGNMENT_H_

#include <cstdint>
#include <vector>

/// `cost[p·clusters + c]`: of point p in cluster c, finite. Gives the cluster of each point with the least total cost among all
/// assignments whose clusters have ⌊n/k⌋ or ⌈n/k⌉ points. The same input gives the same output.
///
/// The transport problem lives on the k clusters: each point starts where cost less price is least, and surplus goes along
/// shortest paths between clusters, where the length from a to b is what the cheapest point of a loses by moving to b.
/// `prices`: empty, or those of a like problem, which shorten the work and not the exactness; holds this problem's afterwards.
std::vector<std::int32_t> balanced_assignment(const std::vector<double>& cost, std::int64_t points, std::int64_t clusters,
                                              std::vector<double>& prices);

#endif  // MOIETY_PLUGINS_CLUSTERERS_BALANCED_KMEANS_ASSIGNMENT_H_
