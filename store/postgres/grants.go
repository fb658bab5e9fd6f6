package postgres

import (
	"strings"

	"github.com/postrider/postrider/outbox"
)

// Roles are the database roles that get rights; an empty one is left out.
type Roles struct {
	// Writer inserts events and has no other right.
	Writer string
	// Relay runs relays and operators' commands. It owns nothing.
	Relay string
	// Monitor reads the health view.
	Monitor string
}

// Grants returns the statements that give each role the rights it needs and no
// more, for the owner of the tables to run. They can be run again.
func Grants(names outbox.Names, roles Roles) []string {
	names = names.WithDefaults(outbox.Postgres)
	var out []string
	grant := func(rights, on, role string) {
		out = append(out, names.Expand(outbox.Postgres, "GRANT "+strings.ReplaceAll(rights, ",", ", ")+" ON "+on+" TO ")+identifier(role))
	}
	if roles.Writer != "" {
		grant("USAGE", "SCHEMA {{schema}}", roles.Writer)
		grant("INSERT", "TABLE {{outbox}}", roles.Writer)
	}
	if roles.Relay != "" {
		grant("USAGE", "SCHEMA {{schema}}", roles.Relay)
		for _, n := range needs() {
			kind := "TABLE"
			if n.token == "bell" {
				kind = "SEQUENCE"
			}
			grant(n.rights, kind+" {{"+n.token+"}}", roles.Relay)
		}
		grant("SELECT", "TABLE {{health}}", roles.Relay)
	}
	if roles.Monitor != "" {
		grant("USAGE", "SCHEMA {{schema}}", roles.Monitor)
		grant("SELECT", "TABLE {{health}}", roles.Monitor)
	}
	return out
}

func identifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
