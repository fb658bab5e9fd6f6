package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"
)

// counters is what a pump counts. They are atomic because Status reads them
// from outside the loop.
type counters struct {
	delivered, failedEvents, deadEvents, held, missed atomic.Int64
	fetches, fetchedRows, settles, wakeups, kept      atomic.Int64
	lanesMoved, leaseLosses, historyLost              atomic.Int64
	publishTime, fetchTime, settleTime, commitToAck   Histogram
	lastSettle                                        atomic.Int64 // unix nanoseconds
	lastLoop                                          atomic.Int64

	databaseErr error // the loop's: the last state that was logged
	databaseBad time.Time
	historyBad  bool
}

type totals struct{ delivered, dead int64 }

func (c *counters) snapshotTotals() totals {
	return totals{c.delivered.Load(), c.deadEvents.Load()}
}

func (p *pump) observeFetch(took time.Duration, rows int) {
	p.fetches.Add(1)
	p.fetchedRows.Add(int64(rows))
	p.fetchTime.Observe(took)
	p.lastLoop.Store(time.Now().UnixNano())
}

func (p *pump) observePublish(took time.Duration, failed int) {
	p.publishTime.Observe(took)
	p.failedEvents.Add(int64(failed))
}

func (p *pump) observeSettle(took time.Duration, b *batch, res Settled, err error) {
	p.settles.Add(1)
	p.settleTime.Observe(took)
	if err != nil {
		return
	}
	p.delivered.Add(int64(len(b.delivered)))
	p.deadEvents.Add(int64(len(b.dead)))
	p.missed.Add(int64(res.Missed))
	p.lastSettle.Store(time.Now().UnixNano())
}

// hintAttr is a hint in a log line, or nothing where there is none: handlers leave
// out an empty Attr.
func hintAttr(hint string) slog.Attr {
	if hint == "" {
		return slog.Attr{}
	}
	return slog.String("hint", hint)
}

// noteDatabase logs when the database goes away and when it is back, once each.
func (p *pump) noteDatabase(err error) {
	switch {
	case p.stopping && errors.Is(err, context.Canceled):
		return // cut because nobody needs it any more
	case err != nil && p.databaseErr == nil:
		p.databaseBad = time.Now()
		p.log.Warn("database unreachable", "error", safeError(err), hintAttr(HintOf(err)))
	case err == nil && p.databaseErr != nil:
		p.log.Info("database reachable", "after", time.Since(p.databaseBad).Round(time.Millisecond))
	}
	p.databaseErr = err
}

func (p *pump) noteLease(err error) {
	switch {
	case errors.Is(err, ErrLeaseLost):
		return // logged by lostLease
	case err != nil && p.leaseErr == nil:
		p.log.Warn("lease not written", "error", safeError(err), hintAttr(HintOf(err)))
	case err == nil && p.leaseErr != nil:
		p.log.Info("lease written again")
	}
	p.leaseErr = err
}

func (p *pump) noteHistory(err error) {
	if err != nil {
		p.historyLost.Add(1)
	}
	if err != nil && !p.historyBad {
		p.log.Error("history not written: delivered events are removed without being kept", "error", safeError(err), hintAttr(HintOf(err)))
	}
	p.historyBad = err != nil
}

// safeKey is a key as it may stand in a log: hashed, since keys can be personal
// data, unless the configuration allows them.
func (p *pump) safeKey(key string) string {
	if p.r.cfg.PlainKeys {
		return key
	}
	return HashKey(key)
}

// HashKey is how a key stands in logs where keys may not be shown: the first
// six bytes of its SHA-256 in hexadecimal, and "" for the empty key.
func HashKey(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:6])
}

// safeName is a destination's name as it may stand in a log: one that varies
// within a topic may hold a key.
func (p *pump) safeName(d *destination) string {
	if d.dynamic {
		return p.safeKey(d.name)
	}
	return d.name
}
