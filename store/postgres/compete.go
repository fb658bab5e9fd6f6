package postgres

import (
	"context"
	"time"

	"github.com/postrider/postrider/relay"
)

// Compete implements relay.Claimer.
//
// The claim's transaction is open while publish runs, at most
// Config.PublishTimeout. A relay that is paused longer than twice that loses the
// connection, and with it the claim: the server's own timeout lets the rows go.
func (s *Store) Compete(ctx context.Context, limit int, publish func(context.Context, []relay.Row) relay.Settlement) (claimed int, err error) {
	open := s.opened.Load()
	if open == nil {
		return 0, errNotOpen
	}
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, wrap("claim", err)
	}
	defer func() { s.release(conn, err) }()
	pg := conn.Conn().PgConn()

	settings := append([]setting{
		{"idle_in_transaction_session_timeout", milliseconds(2 * s.cfg.PublishTimeout)},
	}, settleSettings...)
	var rows []relay.Row
	var d decoder
	claim := statement{
		sql:    s.sql.compete,
		params: []param{int4Param(int32(min(max(limit, 1), 1<<20))), int8Param(s.cfg.MaxBackoff.Microseconds())},
		row: func(v [][]byte) error {
			rows = append(rows, relay.Row{})
			return d.row(v, &rows[len(rows)-1])
		},
	}
	bound, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout+5*time.Second)
	err = pipeline(bound, pg, []statement{begin, s.configure(settings), claim})
	cancel()
	if err != nil {
		return 0, wrap("claim", err)
	}
	if len(rows) == 0 {
		return 0, wrap("claim", pipeline(ctx, pg, []statement{{sql: "ROLLBACK"}}))
	}
	settled := s.publishClaimed(ctx, rows, publish)

	// What was accepted is settled whatever has become of ctx: it would be sent
	// again otherwise.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StatementTimeout+5*time.Second)
	defer cancel()
	statements, _ := s.settleStatements(settled, s.cfg.Retention != NoRetention, open.utf8)
	err = pipeline(after, pg, append([]statement{{sql: "SAVEPOINT settle"}}, statements...))
	if blamesHistory(err) && len(settled.Delivered) > 0 {
		statements, _ = s.settleStatements(settled, false, open.utf8)
		err = pipeline(after, pg, append([]statement{{sql: "ROLLBACK TO SAVEPOINT settle"}}, statements...))
	}
	if err == nil {
		err = pipeline(after, pg, []statement{commit})
	}
	return len(rows), wrap("settle", err)
}

// publishClaimed bounds publish in time.
func (s *Store) publishClaimed(ctx context.Context, rows []relay.Row, publish func(context.Context, []relay.Row) relay.Settlement) relay.Settlement {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.PublishTimeout)
	defer cancel()
	return publish(ctx, rows)
}
