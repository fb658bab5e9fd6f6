package relay

import (
	"context"
	"errors"
	"time"
)

// # Competing claims
//
// The classical way, for teams that want exactly that: claim a batch with row
// locks, publish it, mark or delete it in the claim's own transaction, commit.
// Several relays take disjoint batches. There is order within a batch only, and
// none per key across relays, no lanes, no held keys: a row that fails gets its
// attempts and its retry_at and is claimed again when that has come.
//
// The locks are held while the broker is called, so the time for that is
// bounded by the publish timeout, and what was accepted is settled and
// committed whatever follows.
func (p *pump) compete(ctx context.Context) (DrainReport, error) {
	claimer := p.store.(Claimer) // checked by Config.validate
	before := p.snapshotTotals()
	failing := backoff{base: 100 * time.Millisecond, cap: 5 * time.Second}
	for ctx.Err() == nil {
		var round competingRound
		claimed, err := claimer.Compete(ctx, p.db.Batch, func(ctx context.Context, rows []Row) Settlement {
			return p.competingBatch(ctx, rows, &round)
		})
		p.noteDatabase(err)
		p.lastLoop.Store(time.Now().UnixNano())
		if err == nil { // the claim has committed
			p.delivered.Add(int64(round.accepted))
			if round.settled {
				p.lastSettle.Store(time.Now().UnixNano())
			}
		}
		if p.once && (err != nil || claimed == 0 || round.accepted == 0) {
			p.leftReason = p.unroutable()
			p.heldLeft(ctx)
			return p.competed(before, round), err
		}
		wait := jitter(p.db.PollInterval)
		switch {
		case err != nil:
			wait = failing.next()
		case round.unavailable != nil:
			wait = max(failing.next(), min(RetryDelay(round.unavailable), longestRetryAfter))
		default:
			failing.reset()
			if claimed == p.db.Batch && p.db.WhenFull == WhenFullAgain && round.accepted > 0 {
				wait = 0
			}
		}
		if wait > 0 && !sleep(ctx, wait) {
			break
		}
	}
	return p.competed(before, competingRound{}), nil
}

func (p *pump) competed(before totals, last competingRound) DrainReport {
	after := p.snapshotTotals()
	report := DrainReport{Delivered: after.delivered - before.delivered, Dead: after.dead - before.dead, Left: p.leftReason}
	if last.unavailable != nil {
		report.Left = append(report.Left, Leftover{What: "destination", Why: "unavailable: " + safeError(last.unavailable)})
	}
	return report
}

// competingRound is what one batch met.
type competingRound struct {
	accepted    int
	settled     bool // something changed in the table
	unavailable error
}

// competingBatch publishes a claimed batch and says how to settle it.
func (p *pump) competingBatch(ctx context.Context, rows []Row, round *competingRound) Settlement {
	// The end of Run must not cut a batch in two: what is claimed is sent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.r.cfg.PublishTimeout)
	defer cancel()
	var s Settlement
	for len(rows) > 0 {
		n := p.sameBroker(rows)
		stop := p.competingCall(ctx, rows[:n], &s, round)
		rows = rows[n:]
		if stop && p.db.OnError == OnErrorStop {
			break
		}
	}
	round.settled = len(s.Delivered)+len(s.Marks)+len(s.Dead) > 0
	return s
}

// sameBroker is the length of the run of rows at the start that one call may
// take.
func (p *pump) sameBroker(rows []Row) int {
	first := p.topicOf(rows[0].Topic)
	if p.db.OnError == OnErrorStop {
		return 1 // the next is sent only if this one was accepted
	}
	n := 1
	for n < len(rows) && p.topicOf(rows[n].Topic).route == first.route {
		n++
	}
	return n
}

// competingCall publishes some rows and adds their outcomes. It reports whether
// one failed.
func (p *pump) competingCall(ctx context.Context, rows []Row, s *Settlement, round *competingRound) bool {
	t := p.topicOf(rows[0].Topic)
	if t.route == nil {
		// They would be claimed first each time and leave no room for others.
		t.unroutable = true
		for i := range rows {
			s.Marks = append(s.Marks, Mark{
				Ref: rows[i].Ref, Held: HeldRetry, After: longestRetry, Attempts: rows[i].Attempts, Error: "no route",
			})
		}
		return false
	}
	began := time.Now()
	c := &call{broker: p.r.cfg.Brokers[t.route.Broker]}
	queues := map[Key]*queue{}
	for i := range rows {
		q := queues[rows[i].Key]
		if q == nil || rows[i].Key.Key == "" {
			q = &queue{key: rows[i].Key, topic: t}
			queues[rows[i].Key] = q
		}
		c.items = append(c.items, &item{row: rows[i], queue: q})
	}
	errs := p.publish(ctx, c)
	accepted := 0
	failed := false
	for i, err := range errs {
		row := &rows[i]
		switch {
		case err == nil:
			accepted++
			s.Delivered = append(s.Delivered, row.Ref)
			continue
		case errors.Is(err, ErrHeld): // claimed again in order with the one before
		case IsRejected(err), IsPermanent(err):
			p.competingFailure(t.route, row, err, s)
		default:
			round.unavailable = err
		}
		failed = true
	}
	round.accepted += accepted
	p.observePublish(time.Since(began), len(rows)-accepted)
	return failed
}

func (p *pump) competingFailure(rt *route, row *Row, err error, s *Settlement) {
	attempts := saturated(row.Attempts)
	final := IsPermanent(err) || rt.MaxAttempts > 0 && attempts >= rt.MaxAttempts
	switch {
	case final && rt.deadLetters(row.Key.Key):
		s.Dead = append(s.Dead, Death{Ref: row.Ref, Attempts: attempts, Class: string(classOf(err)), Cause: safeError(err)})
		p.deadEvents.Add(1)
	case final:
		s.Marks = append(s.Marks, Mark{Ref: row.Ref, Held: HeldBlocked, Attempts: attempts, Error: safeError(err)})
	default:
		s.Marks = append(s.Marks, Mark{
			Ref: row.Ref, Held: HeldRetry, After: retryDelay(attempts), Attempts: attempts, Error: safeError(err),
		})
	}
}
