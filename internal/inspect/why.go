package inspect

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Reason is one thing that keeps an event from leaving, or says that it left.
type Reason struct {
	// Code is for programs: delivered, dead, scheduled, head_blocked, head_retry,
	// behind, topic_paused, destination_paused, no_route, no_relay, lane_free,
	// lane_owned, unknown.
	Code string `json:"code"`
	// Text is the sentence for people.
	Text string `json:"text"`
	// Hint is what to do about it, or "".
	Hint string `json:"hint,omitempty"`
	// Relay is the instance of the relay that the reason is about, or "".
	Relay string `json:"relay,omitempty"`
}

// Routed says whether any route takes the events of a topic. Why cannot know the
// routes of a relay; its caller does.
type Routed func(topic string) bool

// Why says why an event that was found is where it is: the nearest reason first.
func (o Outbox) Why(ctx context.Context, e Event, routed Routed) ([]Reason, error) {
	switch e.State {
	case "delivered":
		return []Reason{{Code: "delivered", Text: "delivered " + ago(e.EndedSeconds)}}, nil
	case "dead":
		return []Reason{{
			Code: "dead", Text: fmt.Sprintf("a dead letter since %s after %d attempts: %s: %s",
				length(e.EndedSeconds), e.Attempts, e.CauseClass, e.Cause),
		}}, nil
	case "scheduled":
		return []Reason{{Code: "scheduled", Text: "scheduled by its writer: due in " + length(e.DueInSeconds)}}, nil
	}
	var reasons []Reason
	if e.Key != "" || e.Held != "" {
		head, err := o.headOf(ctx, e)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, headReasons(e, head)...)
	}
	paused, err := o.Paused(ctx)
	if err != nil {
		return nil, err
	}
	reasons = append(reasons, pauseReasons(e, paused)...)
	if routed != nil && !routed(e.Topic) {
		reasons = append(reasons, Reason{
			Code: "no_route", Text: fmt.Sprintf("no route takes topic %q", e.Topic), Hint: "add a route for it to the configuration",
		})
	}
	lane, err := o.laneReason(ctx, e)
	if err != nil {
		return nil, err
	}
	return append(reasons, lane), nil
}

// headOf returns the event that e waits for, e itself if it waits for none.
func (o Outbox) headOf(ctx context.Context, e Event) (Event, error) {
	if e.Key == "" {
		return e, nil
	}
	head, ok, err := o.Head(ctx, e.Topic, e.Key)
	if err != nil || !ok || head.ID >= e.ID {
		return e, err
	}
	return head, nil
}

func headReasons(e, head Event) []Reason {
	const code = "head"
	subject := "it"
	if head.ID != e.ID {
		subject = "event " + head.EventID + " before it"
		if head.Held == "" || head.Held == string(relay.HeldBehind) {
			return []Reason{{Code: "behind", Text: fmt.Sprintf("behind event %s of its key, pending for %s", head.EventID, length(head.QueuedSeconds))}}
		}
	}
	switch relay.Held(head.Held) {
	case relay.HeldBlocked:
		return []Reason{{
			Code: code + "_blocked",
			Text: fmt.Sprintf("%s blocks the key after %d attempts, queued %s: %s", subject, head.Attempts, ago(head.QueuedSeconds), head.Cause),
			Hint: "mend the cause, then release the key or skip the event: see \"A blocked key\" in docs/cli.md",
		}}
	case relay.HeldRetry:
		when := "now"
		if head.DueInSeconds > 0 {
			when = "in " + length(head.DueInSeconds)
		}
		return []Reason{{
			Code: code + "_retry",
			Text: fmt.Sprintf("%s failed %d times, next try %s: %s", subject, head.Attempts, when, head.Cause),
		}}
	}
	return nil
}

func pauseReasons(e Event, paused []relay.Control) []Reason {
	var reasons []Reason
	for _, c := range paused {
		if c.Kind == "topic" && c.Name != e.Topic {
			continue
		}
		by := c.By
		if by == "" {
			by = "an operator"
		}
		text := fmt.Sprintf("%s %q is paused by %s", c.Kind, c.Name, by)
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		reasons = append(reasons, Reason{Code: c.Kind + "_paused", Text: text})
	}
	return reasons
}

// laneReason says who would send the event.
func (o Outbox) laneReason(ctx context.Context, e Event) (Reason, error) {
	relays, lanes, err := o.Relays(ctx)
	if err != nil {
		return Reason{}, err
	}
	if len(relays) == 0 {
		return Reason{Code: "no_relay", Text: "no relay serves this outbox", Hint: `start one: "postrider relay"`}, nil
	}
	id, err := outbox.ParseID(e.EventID)
	if err != nil {
		return Reason{}, fmt.Errorf("event id: %w", err)
	}
	lane := relay.LaneOf(e.Key, id)
	owner, name := lanes.OwnerOf(lane), fmt.Sprintf("lane %d", lane)
	if len(lanes.Owner) == 1 {
		name = "the outbox, which has one lane,"
	}
	if owner == "" {
		return Reason{Code: "lane_free", Text: name + " is owned by no relay right now"}, nil
	}
	for _, r := range relays {
		if r.Instance == owner {
			return Reason{Code: "lane_owned", Text: fmt.Sprintf("%s is owned by relay %s on %s", name, r.Instance, r.Host), Relay: owner}, nil
		}
	}
	return Reason{Code: "lane_owned", Text: fmt.Sprintf("%s is owned by relay %s, whose lease row is gone", name, owner), Relay: owner}, nil
}

func ago(s float64) string { return length(s) + " ago" }

// length spells a length of time as people read it: to the second, below ten
// seconds to the millisecond, without the zeros that Go ends it with.
func length(s float64) string {
	d := max(seconds(s), 0)
	if d < 10*time.Second {
		return d.Round(time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
