package outbox

// Dialect is the kind of SQL that a database speaks.
type Dialect string

// The dialects that there are tables and statements for.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)
