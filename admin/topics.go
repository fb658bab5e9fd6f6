package admin

import (
	"cmp"
	"slices"

	"github.com/postrider/postrider/relay"
)

// other is the topic under which those beyond the limit are counted together.
const other = "other"

// bounded puts the topics beyond the limit together, the smallest backlogs
// first, so that what is late keeps its name.
func bounded(r *relay.Report, limit int) *relay.Report {
	if r == nil || len(r.Topics) <= limit {
		return r
	}
	topics := slices.Clone(r.Topics)
	slices.SortStableFunc(topics, func(a, b relay.TopicReport) int {
		return cmp.Or(cmp.Compare(b.PendingEvents, a.PendingEvents), cmp.Compare(b.DeadEvents, a.DeadEvents))
	})
	rest := relay.TopicReport{Topic: other}
	kept := topics[:0:0]
	for i, t := range topics {
		if i < limit-1 && t.Topic != other { // a topic may be called so itself
			kept = append(kept, t)
			continue
		}
		rest.PendingEvents += t.PendingEvents
		rest.HeldEvents += t.HeldEvents
		rest.ScheduledEvents += t.ScheduledEvents
		rest.DeadEvents += t.DeadEvents
		rest.OldestPendingSeconds = max(rest.OldestPendingSeconds, t.OldestPendingSeconds)
	}
	kept = append(kept, rest)
	cut := *r
	cut.Topics = kept
	return &cut
}
