package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/jackc/pgx/v5/pgconn"
)

// # Prepared statements
//
// Planning the fetch costs more than a fetch of a few rows. On a connection that
// goes to the server itself each statement is prepared once, under a name made
// of its text, and planned once, without its parameters' values: the plans that
// are wanted do not depend on them. plan_test.go looks at the plans made with
// the values; PostgreSQL before 16 does not explain the others.
//
// Behind a pooler in transaction mode the next transaction may be another
// server session's, where the name is unknown. There statements stay unnamed and
// are planned each time. A pooler is told by the process id: it makes up the one
// that it gives its clients. Should one pass for the server all the same, the
// first "no such statement" ends naming for this store.

// prepared is what a connection knows of itself.
type prepared struct {
	direct bool
	names  map[string]string // by text
}

const preparedKey = "postrider.prepared"

// direct reports whether names last on this connection. It looks once.
func (s *Store) direct(ctx context.Context, pg *pgconn.PgConn) (bool, error) {
	if s.unnamed.Load() {
		return false, nil
	}
	data := pg.CustomData()
	if p, ok := data[preparedKey].(*prepared); ok {
		return p.direct, nil
	}
	result := pg.ExecParams(ctx, "SELECT pg_catalog.pg_backend_pid()", nil, nil, nil, binaryResults).Read()
	if result.Err != nil {
		return false, result.Err
	}
	p := &prepared{names: map[string]string{}}
	if len(result.Rows) == 1 && len(result.Rows[0][0]) == 4 {
		p.direct = binary.BigEndian.Uint32(result.Rows[0][0]) == pg.PID()
	}
	data[preparedKey] = p
	return p.direct, nil
}

// name gives each of the statements its name, and prepares those that the
// connection has not met. configure is the statement of the transaction's
// settings: preparing locks the tables too, and must not wait longer for them.
func name(ctx context.Context, pg *pgconn.PgConn, configure statement, list []statement) error {
	p := pg.CustomData()[preparedKey].(*prepared)
	for i := range list {
		st := &list[i]
		if st.name = p.names[st.sql]; st.name != "" {
			continue
		}
		sum := sha256.Sum256([]byte(st.sql))
		st.name = "postrider_" + hex.EncodeToString(sum[:12])
		if err := prepare(ctx, pg, configure, st); err != nil {
			return err
		}
		p.names[st.sql] = st.name
	}
	return nil
}

// prepare names a statement for the session. The search_path must be the one
// that it will run with, or the server would look up its functions again, and by
// a path that a role's default decides.
func prepare(ctx context.Context, pg *pgconn.PgConn, configure statement, st *statement) error {
	if _, err := pg.Exec(ctx, begin.sql+"; "+configure.sql).ReadAll(); err != nil {
		return err
	}
	oids := make([]uint32, len(st.params))
	for i, p := range st.params {
		oids[i] = p.oid
	}
	if _, err := pg.Prepare(ctx, st.name, st.sql, oids); err != nil {
		return err // the transaction is rolled back with the connection's release
	}
	_, err := pg.Exec(ctx, "COMMIT").ReadAll()
	return err
}

// noteNames ends naming if names turn out not to last.
func (s *Store) noteNames(err error) {
	switch sqlState(err) {
	case "26000", "42P05": // no such statement; it is there already
		s.unnamed.Store(true)
	}
}
