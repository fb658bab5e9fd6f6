package outbox

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxIdentifier is PostgreSQL's limit in bytes. It cuts longer names without an
// error, and two tables' indexes would then meet under one name.
const maxIdentifier = 63

// nameTails are what a prefix is followed by in the migrations; the longest one
// decides how long a prefix may be. A test compares the list with the files.
var nameTails = []string{
	"delivered", "delivered_0", "delivered_1", "delivered_2", "delivered_3",
	"delivered_4", "delivered_5", "delivered_6", "delivered_7",
	"dead", "dead_died", "relay", "lane", "control", "health", "version",
	"write", "bell", "ring", "hot", "held", "retry", "scheduled",
	"topic_length", "topic_text", "key_length", "key_text", "headers_object", "held_state", "event_id_uuid",
}

// Validate returns a [*NameError] for the first name that cannot be used, with
// the defaults for those that are empty. Any quoted name works ("My Tenant",
// `Out"box`) but for what would end the statement that a migration tool cuts
// out of a file, and for lengths that the database would cut.
func (n Names) Validate(d Dialect) error {
	if d != Postgres && d != SQLite {
		return errDialect(d)
	}
	n = n.WithDefaults(d)
	for _, f := range []struct {
		field, name string
		limit       int
	}{
		{"Schema", n.Schema, maxIdentifier},
		{"Prefix", n.Prefix, maxIdentifier - longestTail()},
		{"Table", n.Table, maxIdentifier},
		{"Inbox", n.Inbox, maxIdentifier},
	} {
		if reason := nameProblem(f.name, f.limit); reason != "" {
			return &NameError{Field: f.field, Name: f.name, Reason: reason}
		}
	}
	return n.distinct()
}

// distinct finds two tables under one name.
func (n Names) distinct() error {
	taken := make(map[string]bool, len(nameTails)+2)
	for _, tail := range nameTails {
		taken[n.Prefix+"_"+tail] = true
	}
	if taken[n.Table] {
		return &NameError{Field: "Table", Name: n.Table, Reason: "is the name of another table of the prefix " + fmt.Sprintf("%q", n.Prefix)}
	}
	taken[n.Table] = true
	if taken[n.Inbox] {
		return &NameError{Field: "Inbox", Name: n.Inbox, Reason: "is the name of another table"}
	}
	return nil
}

func longestTail() int {
	longest := 0
	for _, tail := range nameTails {
		longest = max(longest, len("_")+len(tail))
	}
	return longest
}

func nameProblem(name string, limit int) string {
	switch {
	case len(name) > limit:
		return fmt.Sprintf("%d bytes, at most %d are allowed", len(name), limit)
	case !utf8.ValidString(name):
		return "not UTF-8"
	case lineProblem(name) != "":
		return lineProblem(name)
	}
	// Migration tools cut files at semicolons and comments, expand ${…}, and the
	// bodies of our functions stand between two $postrider$.
	for _, bad := range []string{";", "--", "/*", "${", "$postrider$", "{{", "}}"} {
		if strings.Contains(name, bad) {
			return fmt.Sprintf("contains %s, which migration tools read as syntax", bad)
		}
	}
	return ""
}
