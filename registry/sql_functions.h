#ifndef MOIETY_REGISTRY_SQL_FUNCTIONS_H_
#define MOIETY_REGISTRY_SQL_FUNCTIONS_H_

#include <sqlite3.h>

namespace moiety::registry {

/// Adds the aggregates stddev(x) (n − 1), median(x) and ci95(x) (half the width of Student's 95 % interval of the mean).
void add_sql_functions(sqlite3* connection);

}  // namespace moiety::registry

#endif  // MOIETY_REGISTRY_SQL_FUNCTIONS_H_
