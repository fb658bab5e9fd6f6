package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/relay"
)

// screenTopics is how many topics fit one screen; the largest backlogs come
// first.
const screenTopics = 15

func (c *command) printStatus(statuses []outboxStatus) error {
	for i, s := range statuses {
		if i > 0 {
			fmt.Fprintln(c.stdout)
		}
		if err := c.printOne(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) printOne(s outboxStatus) error {
	if s.Error != "" {
		_, err := fmt.Fprintf(c.stdout, "%s: cannot be read\n", s.Name)
		return err
	}
	more := ""
	if s.Estimated {
		more = "+"
	}
	held := fmt.Sprint(s.HeldEvents, more)
	if s.BlockedKeys > 0 {
		held += fmt.Sprintf(" (%d keys blocked)", s.BlockedKeys)
	}
	fmt.Fprintf(c.stdout, "%s: pending %d%s, oldest %s, held %s, scheduled %d%s, dead %d%s\n", s.Name,
		s.PendingEvents, more, span(s.OldestPendingSeconds), held, s.ScheduledEvents, more, s.DeadEvents, more)
	if len(s.Paused) > 0 {
		fmt.Fprintln(c.stdout, "paused: "+oneLine(strings.Join(s.Paused, ", ")))
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	if len(s.Topics) > 0 {
		fmt.Fprintln(w, "\n  TOPIC\tPENDING\tOLDEST\tHELD\tSCHEDULED\tDEAD")
	}
	for i, t := range byBacklog(s.Topics) {
		if i == screenTopics {
			fmt.Fprintf(w, "  and %d more\n", len(s.Topics)-i)
			break
		}
		fmt.Fprintf(w, "  %s\t%d\t%s\t%d\t%d\t%d\n", oneLine(t.Topic), t.PendingEvents, span(t.OldestPendingSeconds),
			t.HeldEvents, t.ScheduledEvents, t.DeadEvents)
	}
	if len(s.Relays) == 0 {
		fmt.Fprintln(w, "\n  no relay")
	} else {
		fmt.Fprintln(w, "\n  RELAY\tHOST\tVERSION\tRUNNING FOR\tLANES")
	}
	for _, r := range s.Relays {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%d\n", oneLine(r.Instance), oneLine(r.Host), oneLine(r.Version), span(r.StartedSeconds), r.Lanes)
	}
	return w.Flush()
}

// span spells seconds as people read them.
func span(seconds float64) string {
	d := time.Duration(max(seconds, 0) * float64(time.Second))
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return config.Duration(d.Round(time.Second)).String()
}

func byBacklog(topics []relay.TopicReport) []relay.TopicReport {
	sorted := slices.Clone(topics)
	slices.SortStableFunc(sorted, func(a, b relay.TopicReport) int {
		return cmp.Or(cmp.Compare(b.PendingEvents, a.PendingEvents), cmp.Compare(b.DeadEvents, a.DeadEvents), cmp.Compare(a.Topic, b.Topic))
	})
	return sorted
}
