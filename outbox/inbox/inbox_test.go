package inbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox"
)

// tx answers every statement with the same result.
type tx struct {
	outbox.Tx
	result sql.Result
	err    error
	query  string
	args   []any
}

func (x *tx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	x.query, x.args = query, args
	return x.result, x.err
}

// uncounted is the result of a driver that does not count rows.
type uncounted struct{ sql.Result }

func (uncounted) RowsAffected() (int64, error) { return 0, errors.New("not supported") }

func TestProcess(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		tx      *tx
		handler error
		called  bool
		applied bool
		err     error
	}{
		"a new event is applied":            {tx: &tx{result: driver.RowsAffected(1)}, called: true, applied: true},
		"a repeat is not":                   {tx: &tx{result: driver.RowsAffected(0)}},
		"the handler's error is returned":   {tx: &tx{result: driver.RowsAffected(1)}, handler: broken, called: true, err: broken},
		"the database's error is returned":  {tx: &tx{err: broken}, err: broken},
		"an uncounted insert is an error":   {tx: &tx{result: uncounted{}}, err: ErrRowsUnknown},
		"an unknown number of rows as well": {tx: &tx{result: driver.RowsAffected(-1)}, err: ErrRowsUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			box, err := New(outbox.Postgres, Config{Names: outbox.Names{Schema: "s", Inbox: "seen"}})
			if err != nil {
				t.Fatal(err)
			}
			called := false
			applied, err := box.Process(t.Context(), c.tx, "c", Message{ID: "1"}, func(context.Context) error {
				called = true
				return c.handler
			})
			if applied != c.applied || called != c.called || !errors.Is(err, c.err) {
				t.Fatalf("applied %t, called %t, %v", applied, called, err)
			}
			if !strings.Contains(c.tx.query, `"s"."seen"`) || len(c.tx.args) != 2 || c.tx.args[0] != "c" || c.tx.args[1] != "1" {
				t.Errorf("%s %v", c.tx.query, c.tx.args)
			}
		})
	}
}

func TestNew_RefusesBadConfiguration(t *testing.T) {
	if _, err := New("oracle", Config{}); err == nil {
		t.Error("an unknown dialect")
	}
	if _, err := New(outbox.SQLite, Config{Names: outbox.Names{Inbox: "a;"}}); err == nil {
		t.Error("a bad name")
	}
}
