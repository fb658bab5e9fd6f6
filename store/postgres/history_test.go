package postgres

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func TestSettle_S32_TheHistoryNeverFailsASettle(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"no right":  `REVOKE INSERT ON {{delivered}} FROM /relay/`,
		"no parts":  `DROP TABLE {{delivered_0}}, {{delivered_1}}, {{delivered_2}}, {{delivered_3}}, {{delivered_4}}, {{delivered_5}}, {{delivered_6}}, {{delivered_7}}`,
		"no column": `ALTER TABLE {{delivered}} DROP COLUMN headers`,
		"locked":    "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, option{})
			store := s.open(t)
			s.insert(t, 10)
			f, err := fetchAll(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			if sql == "" {
				tx, err := s.DB.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				if _, err := tx.Exec(s.names.Expand(outbox.Postgres, `LOCK TABLE {{delivered}} IN ACCESS EXCLUSIVE MODE`)); err != nil {
					t.Fatal(err)
				}
			} else {
				s.pg.Exec(t, s.admin, strings.ReplaceAll(s.names.Expand(outbox.Postgres, sql), "/relay/", identifier(s.relayRole)))
			}
			out, err := store.Settle(t.Context(), relay.Settlement{Delivered: refsOf(f.Rows)})
			if err != nil || out.Missed != 0 || !errors.Is(out.History, relay.ErrNoHistory) {
				t.Errorf("%+v, %v", out, err)
			}
			if n := s.Count(t, `SELECT count(*) FROM {{outbox}}`); n != 0 {
				t.Errorf("%d rows left", n)
			}
		})
	}
}

func TestKeep_NeverWaitsForAReader(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{change: func(c *Config) { c.Retention = time.Second }})
	store := s.open(t)
	s.insert(t, 10)
	f, err := fetchAll(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Settle(t.Context(), relay.Settlement{Delivered: refsOf(f.Rows)}); err != nil {
		t.Fatal(err)
	}
	reader, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(s.names.Expand(outbox.Postgres, `SELECT count(*) FROM {{delivered}}`)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(1500 * time.Millisecond); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if k, err := store.Keep(t.Context()); err != nil || k.Removed != 0 || k.More {
			t.Fatalf("under a reader: %+v, %v", k, err)
		}
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "emptied", func() bool {
		_, err := store.Keep(t.Context())
		return err == nil && s.Count(t, `SELECT count(*) FROM {{delivered}}`) == 0
	})
}
