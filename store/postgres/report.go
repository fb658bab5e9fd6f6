package postgres

import (
	"context"
	"time"

	"github.com/postrider/postrider/relay"
)

// reportRows is how many rows a count of one topic and state reads at most.
const reportRows = 10000

// Report implements relay.Reporter. A count that reached 10,000 is a lower bound
// and sets Estimated; the oldest event is exact unless more than 10,000 rows of
// its topic stand before it.
func (s *Store) Report(ctx context.Context) (relay.Report, error) {
	if s.opened.Load() == nil {
		return relay.Report{}, errNotOpen
	}
	out := relay.Report{Topics: []relay.TopicReport{}}
	err := s.run(ctx, fetchSettings, statement{
		sql: s.sql.report, params: []param{int4Param(reportRows)},
		row: func(v [][]byte) error {
			t := relay.TopicReport{
				Topic:         string(v[0]),
				PendingEvents: int8Value(v[1]), HeldEvents: int8Value(v[3]), ScheduledEvents: int8Value(v[4]), DeadEvents: int8Value(v[5]),
				OldestPendingSeconds: (time.Duration(int8Value(v[2])) * time.Microsecond).Seconds(),
			}
			out.Topics = append(out.Topics, t)
			out.PendingEvents += t.PendingEvents
			out.OldestPendingSeconds = max(out.OldestPendingSeconds, t.OldestPendingSeconds)
			out.HeldEvents += t.HeldEvents
			out.ScheduledEvents += t.ScheduledEvents
			out.DeadEvents += t.DeadEvents
			out.BlockedKeys += int8Value(v[6])
			out.Estimated = out.Estimated || boolValue(v[7])
			return nil
		},
	})
	if err != nil {
		return relay.Report{}, wrap("report", err)
	}
	return out, nil
}
