package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/outbox"
)

// Write is what a relay costs the writers.
type Write struct {
	Writers  int
	Duration time.Duration
	Payload  int
}

// WriteResult is what a Write measured, in commits a second.
type WriteResult struct {
	// Plain is an insert into a table like the outbox without its indexes and
	// its doorbell.
	Plain   float64 `json:"commits_per_second_plain_table"`
	Without float64 `json:"commits_per_second_without_relay"`
	With    float64 `json:"commits_per_second_with_relay"`
	Ratio   float64 `json:"ratio"`
}

// Run lets writers commit one event a transaction, in turns into a plain table,
// into the outbox without a relay, and with one.
func (w Write) Run(ctx context.Context, e *Env) (WriteResult, error) {
	var res WriteResult
	broker, err := e.Broker()
	if err != nil {
		return res, err
	}
	defer broker.Close(ctx) //nolint:errcheck // everything was answered
	if err := w.plainTable(ctx, e); err != nil {
		return res, err
	}
	defer e.DB.ExecContext(context.WithoutCancel(ctx), e.plain("DROP TABLE IF EXISTS ")) //nolint:errcheck // a leftover is replaced by the next run
	e.DB.SetMaxOpenConns(w.Writers)
	e.DB.SetMaxIdleConns(w.Writers)
	const rounds = 3
	each := w.Duration / rounds
	for range rounds {
		plain, err := w.commits(ctx, e, e.plain("INSERT INTO "), each)
		if err != nil {
			return res, err
		}
		without, err := w.commits(ctx, e, e.Names.Expand(e.Dialect, "INSERT INTO {{outbox}}"), each)
		if err != nil {
			return res, err
		}
		if err := e.Empty(ctx); err != nil {
			return res, err
		}
		_, stop, err := e.serve(ctx, 24*time.Hour, broker)
		if err != nil {
			return res, err
		}
		with, err := w.commits(ctx, e, e.Names.Expand(e.Dialect, "INSERT INTO {{outbox}}"), each)
		if stopErr := stop(); err == nil {
			err = stopErr
		}
		if err != nil {
			return res, err
		}
		if err := e.Empty(ctx); err != nil {
			return res, err
		}
		e.Log("plain %.0f, without a relay %.0f, with one %.0f commits/s", plain, without, with)
		res.Plain += plain / rounds
		res.Without += without / rounds
		res.With += with / rounds
	}
	res.Ratio = res.With / res.Without
	return res, nil
}

// plain is a statement about the plain table.
func (e *Env) plain(verb string) string {
	return verb + e.Names.Expand(e.Dialect, "{{outbox_plain}}")
}

func (w Write) plainTable(ctx context.Context, e *Env) error {
	columns := " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text, key text, type text, payload bytea)"
	if e.Dialect == outbox.SQLite {
		columns = " (id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT, key TEXT, type TEXT, payload BLOB)"
	}
	if _, err := e.DB.ExecContext(ctx, e.plain("DROP TABLE IF EXISTS ")); err != nil {
		return err
	}
	_, err := e.DB.ExecContext(ctx, e.plain("CREATE TABLE ")+columns)
	return err
}

// commits counts the commits a second of all writers.
func (w Write) commits(ctx context.Context, e *Env, insert string, d time.Duration) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	statement := insert + " (topic, key, type, payload) VALUES ($1, $2, 'bench', $3)"
	payload := []byte(strings.Repeat("x", w.Payload))
	var (
		wg    sync.WaitGroup
		count atomic.Int64
		first atomic.Pointer[error]
	)
	began := time.Now()
	for i := range w.Writers {
		wg.Go(func() {
			for n := 0; time.Since(began) < d && first.Load() == nil; n++ {
				key := fmt.Sprintf("key-%d-%d", i, n%100)
				if _, err := e.DB.ExecContext(ctx, statement, Topic, key, payload); err != nil {
					first.CompareAndSwap(nil, &err)
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return 0, *err
	}
	return perSecond(int(count.Load()), time.Since(began)), nil
}
