package outbox

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Format is a migration tool's way to write a file.
type Format string

// The formats that Print writes.
const (
	// FormatGoose has both directions, as goose wants them.
	FormatGoose Format = "goose"
	// FormatFlyway is Flyway's V<version>__<name>.sql, up only.
	FormatFlyway Format = "flyway"
	// FormatAtlas is a file of an Atlas migration directory, up only; run
	// "atlas migrate hash" after saving it.
	FormatAtlas Format = "atlas"
	// FormatSQL is plain SQL in transactions, up only, for psql and sqlite3.
	FormatSQL Format = "sql"
)

// Print writes the migrations of a dialect in a tool's format, each behind a
// comment line with the name that the tool wants the file to have:
//
//	-- file: V1__outbox.sql
func Print(w io.Writer, f Format, d Dialect, n Names, o MigrationOptions) error {
	dir, err := Migrations(d, n, o)
	if err != nil {
		return err
	}
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return fmt.Errorf("list of migrations: %w", err)
	}
	for i, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return fmt.Errorf("migration %s: %w", name, err)
		}
		file, body, err := f.spell(name, string(text))
		if err != nil {
			return err
		}
		if i > 0 {
			file = "\n-- file: " + file
		} else {
			file = "-- file: " + file
		}
		if _, err := io.WriteString(w, file+"\n"+body); err != nil {
			return fmt.Errorf("print migration %s: %w", name, err)
		}
	}
	return nil
}

// spell returns a migration's file name and text in the format.
func (f Format) spell(name, text string) (file, body string, err error) {
	if f == FormatGoose {
		return name, text, nil
	}
	number, title, _ := strings.Cut(strings.TrimSuffix(name, ".sql"), "_")
	up := upOnly(text)
	switch f {
	case FormatFlyway:
		return "V" + strings.TrimLeft(number, "0") + "__" + title + ".sql", up, nil
	case FormatAtlas:
		return name, up, nil
	case FormatSQL:
		head, rest := splitComment(up)
		return name, head + "BEGIN;\n" + rest + "COMMIT;\n", nil
	}
	return "", "", fmt.Errorf("migration format %q: not one of goose, flyway, atlas, sql", string(f))
}

// upOnly drops goose's annotations and everything after its Down.
func upOnly(text string) string {
	up, _, _ := strings.Cut(text, "-- +goose Down")
	var b strings.Builder
	for line := range strings.Lines(up) {
		if !strings.HasPrefix(line, "-- +goose") {
			b.WriteString(line)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// splitComment cuts off the comment at the head of a file.
func splitComment(text string) (head, rest string) {
	i := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		i += len(line)
	}
	return text[:i], text[i:]
}
