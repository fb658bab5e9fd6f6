package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// minVersion is the oldest server that is served.
const minVersion = 140000

// Open implements relay.Store.
//
// Final errors (relay.Misconfigured) are: a server before version 14, a missing,
// foreign or partly missing set of tables, a schema outside this release's ±1,
// missing rights and row-level security. All else is to be tried again: an
// unreachable server, a refused password, a missing database, a server that is
// read-only or in recovery.
func (s *Store) Open(ctx context.Context) (relay.Server, error) {
	s.proof.forget()
	if err := s.connect(ctx); err != nil {
		return relay.Server{}, wrap("open", err)
	}
	facts, err := s.serverFacts(ctx)
	if err != nil {
		return relay.Server{}, s.openError(err)
	}
	if facts.Version < minVersion {
		return relay.Server{}, relay.Misconfigured(relay.Hint(
			fmt.Errorf("PostgreSQL %s: older than version 14", facts.Name), "upgrade the database server"))
	}
	if !facts.Primary {
		s.distrust()
		return relay.Server{}, relay.Hint(fmt.Errorf("database %q: %w", facts.Database, errNotPrimary), "give the address of the primary")
	}
	tables, err := s.describeTables(ctx)
	if err != nil {
		return relay.Server{}, s.openError(err)
	}
	if err := s.checkTables(facts, tables); err != nil {
		return relay.Server{}, relay.Misconfigured(err)
	}
	version, err := s.schemaVersion(ctx)
	if err != nil {
		return relay.Server{}, err
	}
	identity, expression, err := s.identify(ctx)
	if err != nil {
		return relay.Server{}, s.openError(err)
	}
	table := tables[s.cfg.bare("{{name:outbox}}")]
	open := &opened{
		fetch: fetchSQL(s.cfg.Names, expression),
		table: uint32(table.oid),
		utf8:  facts.Encoding == "UTF8",
	}
	open.noBell = s.noBell(facts, tables)
	open.bell = open.noBell == ""
	s.opened.Store(open)
	return relay.Server{
		Identity: identity,
		Describe: "PostgreSQL " + facts.Name,
		Schema:   version,
		Lanes:    open.utf8,
		Findings: s.findings(facts, table, open),
	}, nil
}

// openError adds what to do to the errors that people meet first. None of them
// is final: a password may be rotated before it arrives here, a database
// restored.
func (s *Store) openError(err error) error {
	err = wrap("open", err)
	switch sqlState(err) {
	case "28P01", "28000":
		return relay.Hint(err, "check the user and the password, and pg_hba.conf")
	case stateNoDatabase:
		return relay.Hint(err, "check the name of the database in the URL")
	case "53300":
		return relay.Hint(err, "raise max_connections, or put a pooler in front")
	}
	return err
}

// serverFacts is what queryServer builds.
type serverFacts struct {
	Version        int    `json:"version"`
	Name           string `json:"name"`
	Encoding       string `json:"encoding"`
	Primary        bool   `json:"primary"`
	Role           string `json:"role"`
	Database       string `json:"database"`
	Fsync          string `json:"fsync"`
	FullPageWrites string `json:"full_page_writes"`
	SyncCommit     string `json:"synchronous_commit"`
	// Schema is whether the role may use it; nil if there is none.
	Schema *bool `json:"schema"`
}

func (s *Store) serverFacts(ctx context.Context) (facts serverFacts, err error) {
	err = s.run(ctx, nil, statement{
		sql: queryServer, params: []param{textParam(s.cfg.Names.Schema)},
		row: func(v [][]byte) error { return json.Unmarshal(v[0], &facts) },
	})
	return facts, err
}

// schemaVersion reads and checks the version of our tables.
func (s *Store) schemaVersion(ctx context.Context) (int, error) {
	version := 0
	err := s.run(ctx, nil, statement{sql: s.cfg.expand(queryVersion), row: func(v [][]byte) error {
		version = int(int4Value(v[0]))
		return nil
	}})
	if err != nil {
		return 0, s.openError(err)
	}
	if version < outbox.SchemaVersion-1 || version > outbox.SchemaVersion+1 {
		hint := `run "postrider migrate up"`
		if version > outbox.SchemaVersion {
			hint = "use a newer release of postrider"
		}
		return 0, relay.Misconfigured(relay.Hint(
			fmt.Errorf("tables of version %d: this release works with %d to %d", version, max(outbox.SchemaVersion-1, 1), outbox.SchemaVersion+1), hint))
	}
	return version, nil
}

// identify finds the first of the identities that the role may ask for.
func (s *Store) identify(ctx context.Context) (identity, expression string, err error) {
	for _, expression = range identities {
		err = s.run(ctx, nil, statement{sql: "SELECT " + expression, row: func(v [][]byte) error {
			identity = string(v[0])
			return nil
		}})
		if err == nil || sqlState(err) == "" || isStale(err) {
			return identity, expression, err
		}
	}
	return identity, expression, err
}

// noBell says why there is no doorbell; "" if there is one.
func (s *Store) noBell(facts serverFacts, tables map[string]table) string {
	switch {
	case s.cfg.Doorbell == DoorbellOff:
		return "doorbell: off"
	case !tables[s.cfg.bare("{{name:outbox}}")].bell:
		return "the outbox has no doorbell trigger"
	case !tables[s.cfg.bare("{{name:bell}}")].may("UPDATE"):
		return fmt.Sprintf("role %q lacks UPDATE on the doorbell's sequence", facts.Role)
	}
	return ""
}

// findings are what an operator should know.
func (s *Store) findings(facts serverFacts, t table, open *opened) (out []relay.Finding) {
	add := func(problem, hint string) { out = append(out, relay.Finding{Problem: problem, Hint: hint}) }
	if t.cache > 1 {
		add(fmt.Sprintf("the ids of table %s are cached (CACHE %d): events of one key may be sent out of order", s.cfg.expand("{{outbox}}"), t.cache),
			"ALTER SEQUENCE … CACHE 1 on the id's sequence")
	}
	if t.persistence == "u" {
		add(fmt.Sprintf("table %s is unlogged: a crash of the server empties it", s.cfg.expand("{{outbox}}")), "ALTER TABLE … SET LOGGED")
	}
	if !open.utf8 {
		add(fmt.Sprintf("database %q is in %s: all keys share one lane", facts.Database, facts.Encoding), "one relay works at a time; for more, use a database in UTF8")
	}
	if facts.Fsync == "off" || facts.FullPageWrites == "off" {
		add("fsync or full_page_writes is off: a crash can lose committed events", "switch them on")
	}
	if facts.SyncCommit == "off" {
		add("synchronous_commit is off: a crash can lose events that were committed a moment before, also ones already published", "set it to on for the writers")
	}
	if s.cfg.Doorbell == DoorbellOn && !open.bell {
		add("doorbell: on, but "+open.noBell, `run "postrider migrate up" and "postrider grants"`)
	}
	return out
}

// bare expands a {{name:…}} and takes the quotes off.
func (c Config) bare(token string) string {
	quoted := c.expand(token)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `""`, `"`)
}
