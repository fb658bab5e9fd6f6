package inbox

import (
	"fmt"

	"github.com/postrider/postrider/outbox"
)

// The insert comes first, before the consumer's own changes: it takes the lock
// on the identity's place in the primary key, so a second delivery waits there
// and not in the middle of its work. No conflict target is named and nothing is
// returned: both would need the right to SELECT. No sequence is drawn, so
// repeats use nothing up.
const (
	insertPostgres = `INSERT INTO {{inbox}} (consumer, identity) VALUES ($1::text, $2::text) ON CONFLICT DO NOTHING`
	insertSQLite   = `INSERT INTO {{inbox}} (consumer, identity) VALUES (?, ?) ON CONFLICT DO NOTHING`
)

func insertStatement(d outbox.Dialect) (string, error) {
	switch d {
	case outbox.Postgres:
		return insertPostgres, nil
	case outbox.SQLite:
		return insertSQLite, nil
	}
	return "", fmt.Errorf("inbox: no statements for sql dialect %q", string(d))
}
