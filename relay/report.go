package relay

// Report is the state of one outbox, as status, metrics and health views show
// it. The names of its fields are those of the metrics without "outbox_".
type Report struct {
	PendingEvents        int64         `json:"pending_events"` // due, held included
	OldestPendingSeconds float64       `json:"oldest_pending_seconds"`
	HeldEvents           int64         `json:"held_events"`
	BlockedKeys          int64         `json:"blocked_keys"`
	ScheduledEvents      int64         `json:"scheduled_events"`
	DeadEvents           int64         `json:"dead_events"`
	Topics               []TopicReport `json:"topics"`
	// Estimated says that a count stopped at its bound and is a lower bound.
	Estimated bool `json:"estimated,omitempty"`
}

// TopicReport is the part of a report about one topic.
type TopicReport struct {
	Topic                string  `json:"topic"`
	PendingEvents        int64   `json:"pending_events"`
	OldestPendingSeconds float64 `json:"oldest_pending_seconds"`
	HeldEvents           int64   `json:"held_events"`
	ScheduledEvents      int64   `json:"scheduled_events"`
	DeadEvents           int64   `json:"dead_events"`
}
