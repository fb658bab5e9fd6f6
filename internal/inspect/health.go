package inspect

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/relay"
)

// selectHealth reads the view that monitoring with SQL alone uses. It counts
// everything, without a bound.
const selectHealth = `
SELECT topic, pending_events, oldest_pending_seconds, held_events, scheduled_events, dead_events
FROM {{health}} ORDER BY topic`

// Health reports from the health view, which needs no right but to read it and
// works on a standby. Blocked keys are not in it.
func (o Outbox) Health(ctx context.Context) (relay.Report, error) {
	report := relay.Report{Topics: []relay.TopicReport{}}
	err := o.each(ctx, "health view", selectHealth, nil, func(rows *sql.Rows) error {
		var t relay.TopicReport
		err := rows.Scan(&t.Topic, &t.PendingEvents, &t.OldestPendingSeconds, &t.HeldEvents, &t.ScheduledEvents, &t.DeadEvents)
		report.Topics = append(report.Topics, t)
		report.PendingEvents += t.PendingEvents
		report.OldestPendingSeconds = max(report.OldestPendingSeconds, t.OldestPendingSeconds)
		report.HeldEvents += t.HeldEvents
		report.ScheduledEvents += t.ScheduledEvents
		report.DeadEvents += t.DeadEvents
		return err
	})
	return report, err
}
