package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider/relay"
)

// table is one of our tables as the catalog describes it.
type table struct {
	oid         int64
	kind        string
	persistence string
	secured     bool // row-level security applies to us
	columns     string
	rights      string
	bell        bool
	cache       int64
}

func (t table) may(right string) bool {
	return slices.Contains(strings.Split(t.rights, ","), right)
}

// need is a table that a relay needs, with the rights it needs there.
type need struct{ token, rights string }

// needs is the relay's least set of rights; [Grants] prints the same.
func needs() []need {
	list := []need{
		{"outbox", "SELECT,INSERT,UPDATE,DELETE"},
		{"delivered", "SELECT,INSERT,DELETE"},
		{"dead", "SELECT,INSERT,UPDATE,DELETE"},
		{"relay", "SELECT,INSERT,UPDATE,DELETE"},
		{"lane", "SELECT,UPDATE"},
		{"control", "SELECT,INSERT,UPDATE,DELETE"},
		{"version", "SELECT"},
		{"bell", "UPDATE"},
	}
	for slot := range 8 {
		list = append(list, need{fmt.Sprintf("delivered_%d", slot), "SELECT,TRUNCATE"})
	}
	return list
}

// optional rights: without them the store works and says what it does without.
func (n need) optional() bool {
	return n.token == "bell" || strings.HasPrefix(n.token, "delivered")
}

func (s *Store) describeTables(ctx context.Context) (map[string]table, error) {
	var names []string
	for _, n := range needs() {
		names = append(names, s.cfg.bare("{{name:"+n.token+"}}"))
	}
	out := make(map[string]table)
	err := s.run(ctx, nil, statement{
		sql:    queryTables,
		params: []param{textParam(s.cfg.Names.Schema), texts(names), textParam(s.cfg.bare("{{name:outbox_bell}}"))},
		row: func(v [][]byte) error {
			out[string(v[0])] = table{
				oid: int8Value(v[1]), kind: string(v[2]), persistence: string(v[3]), secured: boolValue(v[4]),
				columns: string(v[5]), rights: string(v[6]), bell: boolValue(v[7]), cache: int8Value(v[8]),
			}
			return nil
		},
	})
	return out, err
}

// outboxColumns are the columns by which a table is known as ours.
var outboxColumns = []string{
	"id bigint", "event_id uuid", "generation integer", "topic text", "key text", "type text",
	"schema_version integer", "subject_version bigint", "payload bytea", "content_type text", "headers jsonb",
	"created_at timestamp with time zone", "queued_at timestamp with time zone", "available_at timestamp with time zone",
	"held text", "retry_at timestamp with time zone", "attempts integer", "last_error text",
}

// checkTables returns the first thing that keeps a relay from working here, with
// what to do.
func (s *Store) checkTables(facts serverFacts, tables map[string]table) error {
	const migrate = `run "postrider migrate up"`
	if facts.Schema == nil {
		return relay.Hint(fmt.Errorf("schema %q: not found in database %q", s.cfg.Names.Schema, facts.Database), migrate)
	}
	if !*facts.Schema {
		return relay.Hint(fmt.Errorf("schema %q: role %q lacks USAGE", s.cfg.Names.Schema, facts.Role), `run "postrider grants"`)
	}
	own, ok := tables[s.cfg.bare("{{name:outbox}}")]
	if !ok {
		return relay.Hint(fmt.Errorf("table %s: not found in database %q", s.cfg.expand("{{outbox}}"), facts.Database), migrate)
	}
	if lacks := own.lacksColumns(); lacks != "" || (own.kind != "r" && own.kind != "p") {
		return relay.Hint(fmt.Errorf("table %s: not an outbox of postrider (no column %s)", s.cfg.expand("{{outbox}}"), lacks),
			`"postrider adopt" maps an existing table, "--prefix" makes new ones beside it`)
	}
	if own.secured {
		return relay.Hint(fmt.Errorf("table %s: row-level security hides rows from role %q", s.cfg.expand("{{outbox}}"), facts.Role),
			"ALTER ROLE … BYPASSRLS, or DISABLE ROW LEVEL SECURITY on the table")
	}
	for _, n := range needs() {
		t, ok := tables[s.cfg.bare("{{name:"+n.token+"}}")]
		name := s.cfg.expand("{{" + n.token + "}}")
		if !ok {
			return relay.Hint(fmt.Errorf("table %s: not found beside the outbox", name), migrate)
		}
		if n.optional() {
			continue
		}
		if t.secured {
			return relay.Hint(fmt.Errorf("table %s: row-level security hides rows from role %q", name, facts.Role), "ALTER ROLE … BYPASSRLS")
		}
		for right := range strings.SplitSeq(n.rights, ",") {
			if !t.may(right) {
				return relay.Hint(fmt.Errorf("table %s: role %q lacks %s", name, facts.Role, right), `run "postrider grants"`)
			}
		}
	}
	return nil
}

func (t table) lacksColumns() string {
	have := make(map[string]bool)
	for c := range strings.SplitSeq(t.columns, ",") {
		have[c] = true
	}
	for _, c := range outboxColumns {
		if !have[c] {
			return c
		}
	}
	return ""
}
