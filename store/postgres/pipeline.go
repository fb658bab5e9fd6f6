package postgres

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// statement is one statement of a pipeline.
type statement struct {
	sql    string
	name   string // of the prepared statement, where it is one
	params []param
	// row is called for each row of the result; the values are valid during the
	// call only. nil ignores rows.
	row func(values [][]byte) error
	// affected, if set, is given the number of rows of the command.
	affected *int
}

// setting is a parameter that is set for one transaction.
type setting struct{ name, value string }

// binaryResults asks for all columns in binary.
var binaryResults = []int16{1}

// run sends the statements as one transaction in one round trip: BEGIN, the
// settings, the statements, COMMIT, one Sync. If one fails, the server skips the
// rest and nothing is committed.
//
// READ COMMITTED is named because a role's default may be another; each
// statement has a snapshot of its own.
func (s *Store) run(ctx context.Context, settings []setting, list ...statement) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout+5*time.Second)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { s.release(conn, err) }()

	pg := conn.Conn().PgConn()
	direct, err := s.direct(ctx, pg)
	if err != nil {
		return err
	}
	if direct {
		settings = append(slices.Clip(settings), setting{"plan_cache_mode", "force_generic_plan"})
	}
	all := make([]statement, 0, len(list)+3)
	all = append(all, begin, s.configure(settings))
	all = append(all, list...)
	if direct {
		if err := name(ctx, pg, all[1], all[1:]); err != nil {
			return err
		}
	}
	all = append(all, commit)
	err = pipeline(ctx, pg, all)
	s.noteNames(err)
	return err
}

var (
	begin  = statement{sql: "BEGIN ISOLATION LEVEL READ COMMITTED"}
	commit = statement{sql: "COMMIT"}
)

// configure makes one statement of all settings. search_path is pinned so that
// nobody's function of a known name is called with our rights.
func (s *Store) configure(settings []setting) statement {
	var b strings.Builder
	b.WriteString("SELECT pg_catalog.set_config('search_path', 'pg_catalog', true)")
	b.WriteString(", pg_catalog.set_config('statement_timeout', '")
	b.WriteString(milliseconds(s.cfg.StatementTimeout))
	b.WriteString("', true)")
	for _, set := range settings {
		b.WriteString(", pg_catalog.set_config('" + set.name + "', '" + set.value + "', true)")
	}
	return statement{sql: b.String()}
}

// pipeline sends statements with one Sync and reads all their results.
func pipeline(ctx context.Context, pg *pgconn.PgConn, list []statement) error {
	batch := &pgconn.Batch{}
	for _, st := range list {
		values := make([][]byte, len(st.params))
		oids := make([]uint32, len(st.params))
		formats := make([]int16, len(st.params))
		for i, p := range st.params {
			values[i], oids[i], formats[i] = p.value, p.oid, 1
		}
		if st.name != "" {
			batch.ExecPrepared(st.name, values, formats, binaryResults)
			continue
		}
		batch.ExecParams(st.sql, values, oids, formats, binaryResults)
	}
	results := pg.ExecBatch(ctx, batch)
	var failed error
	for i := 0; results.NextResult(); i++ {
		reader := results.ResultReader()
		for reader.NextRow() {
			if list[i].row != nil && failed == nil {
				failed = list[i].row(reader.Values())
			}
		}
		tag, err := reader.Close()
		if err == nil && list[i].affected != nil {
			*list[i].affected = int(tag.RowsAffected())
		}
	}
	if err := results.Close(); err != nil {
		return err
	}
	return failed
}
