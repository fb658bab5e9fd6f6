package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/relay"
)

// The doorbell.
//
// A sleeping relay writes the time until which it sleeps into a sequence; the
// outbox's trigger reads it and sends a NOTIFY on the channel postrider_<oid of
// the outbox> only while somebody sleeps. Listening needs a session of its own,
// outside the pool and never in a transaction: a listener in a transaction would
// hold the server's whole NOTIFY queue (S47).

const (
	// armFor is how long Arm asks for the bell.
	armFor = time.Second
	// echoTimeout is how long a listener waits for its own probe.
	echoTimeout = 2 * time.Second
	// queueLimit is the fill of the server's NOTIFY queue above which nobody
	// arms: a full queue fails the writers' COMMIT.
	queueLimit = "0.1"
)

// queryArm rings for the inserts of the next $1 milliseconds. Locks: ROW
// EXCLUSIVE on the sequence.
const queryArm = `
SELECT setval(/bell/::regclass, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1::bigint) > 0
WHERE pg_notification_queue_usage() <= ` + queueLimit

// errNoBell is returned by Listen and Arm where there is no doorbell.
var errNoBell = errors.New("no doorbell")

// Arm implements relay.Waker.
func (s *Store) Arm(ctx context.Context) error {
	if err := s.haveBell(); err != nil {
		return err
	}
	armed := false
	err := s.run(ctx, []setting{{"synchronous_commit", "off"}}, statement{
		sql: s.sql.arm, params: []param{int8Param(armFor.Milliseconds())},
		row: func([][]byte) error { armed = true; return nil },
	})
	if err != nil {
		return wrap("arm the doorbell", err)
	}
	if !armed {
		return fmt.Errorf("arm the doorbell: the server's NOTIFY queue is more than %s full", queueLimit)
	}
	return nil
}

func (s *Store) haveBell() error {
	open := s.opened.Load()
	if open == nil {
		return errNotOpen
	}
	if !open.bell {
		return fmt.Errorf("%w: %s", errNoBell, open.noBell)
	}
	return nil
}

// Listen implements relay.Waker. It rings once when it listens, for what came
// while it did not.
//
// It proves first that a NOTIFY reaches it: the probe is sent over a pooled
// connection while the listener is idle. A transaction pooler gives the idle
// listener's session away, so the echo does not come and Listen fails within 2 s,
// where otherwise the bell would be silent for ever (S35). Sent over the
// listener's own connection the echo would come from a pooler too.
func (s *Store) Listen(ctx context.Context, ring func()) error {
	if err := s.haveBell(); err != nil {
		return err
	}
	url, err := s.cfg.direct(ctx)
	if err != nil {
		return fmt.Errorf("connection string: %w", err)
	}
	cc, err := pgconn.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("connection string: %w", redact(err))
	}
	s.cfg.prepare(cc)
	heard := make(chan string, 16)
	channel := "postrider_" + strconv.FormatUint(uint64(s.opened.Load().table), 10)
	cc.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if n.Channel == channel {
			ring()
			return
		}
		select {
		case heard <- n.Channel:
		default:
		}
	}
	pg, err := pgconn.ConnectConfig(ctx, cc)
	if err != nil {
		return wrap("listen", err)
	}
	defer closeNow(pg)
	if err := s.proveEcho(ctx, pg, channel, heard); err != nil {
		return wrap("listen", err)
	}
	ring()
	for {
		if err := pg.WaitForNotification(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return wrap("listen", err)
		}
	}
}

// proveEcho listens on the channel and on one of its own, and waits for the
// echo of a probe on that.
func (s *Store) proveEcho(ctx context.Context, pg *pgconn.PgConn, channel string, heard <-chan string) error {
	ctx, cancel := context.WithTimeout(ctx, echoTimeout)
	defer cancel()
	probe := "postrider_probe_" + randomName()
	if _, err := pg.Exec(ctx, "LISTEN "+channel+"; LISTEN "+probe).ReadAll(); err != nil {
		return err
	}
	if err := s.run(ctx, nil, statement{sql: "SELECT pg_notify($1, '')", params: []param{textParam(probe)}}); err != nil {
		return err
	}
	for {
		select {
		case name := <-heard:
			if name == probe {
				_, err := pg.Exec(ctx, "UNLISTEN "+probe).ReadAll()
				return err
			}
		default:
			if err := pg.WaitForNotification(ctx); isTimeout(err) || (err != nil && ctx.Err() != nil) {
				return relay.Hint(errors.New("a NOTIFY does not arrive here: a pooler in transaction mode, or another database"),
					"give direct_url, or set doorbell: off")
			} else if err != nil {
				return err
			}
		}
	}
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
