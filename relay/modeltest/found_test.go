package modeltest

import (
	"strings"
	"testing"
	"time"
)

// TestModel_Found replays the histories that once broke a rule, as shrunk. Each
// is played often, since goroutines run in another order each time.
func TestModel_Found(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, h := range map[string]history{
		// The later rows of a key were marked as held behind the first, and the
		// first forgotten when the destination failed: the read of the closed key
		// waited for a mark of the first, and the fetch for the end of that read.
		"a key with more than a batch fails": {
			relays: 1, leases: true, policy: "block", batch: 1, perCall: 300 * ms, perTopic: true,
			steps: []step{
				{op: "write", topic: "a", key: "l", count: 3, fate: fate{kind: "unknown", times: 2}},
			},
		},
		// What waited for a destination that was being probed made room, and the
		// next fetch brought it back at once, without end.
		"the memory is full of a destination that is probed": {
			relays: 1, leases: true, policy: "dead_letter", batch: 2, perCall: ms, perEvent: 700 * ms, perTopic: true, mixes: true,
			steps: []step{
				{op: "insert", slot: 0, topic: "b", count: 2, fate: fate{kind: "rejected", times: 2}},
				{op: "write", topic: "a", key: "k", count: 1, fate: fate{kind: "unavailable", times: 4}},
				{op: "insert", slot: 0, topic: "a", key: "k", count: 2},
				{op: "write", topic: "a", key: "k", count: 2, fate: fate{kind: "unavailable", times: 4}},
				{op: "insert", slot: 0, topic: "b", key: "k", count: 3, fate: fate{kind: "permanent", times: 2, final: true}},
				{op: "write", topic: "a", key: "l", count: 2},
				{op: "write", topic: "a", key: "m", count: 1},
			},
		},
		// Fetches asked for ids above a floor, and so found a later event of a key
		// before those that had been forgotten when the destination failed,
		"events forgotten in an outage come before the later ones of their key": {
			relays: 1, leases: true, policy: "block", batch: 4000, perEvent: 700 * ms,
			steps: []step{
				{op: "insert", topic: "a", key: "k", count: 20, fate: fate{kind: "unavailable", times: 4}, schedule: 485 * ms},
				{op: "pause", lasts: 14605 * ms},
				{op: "hang up", wait: 1044 * ms},
			},
		},
		// or before one that committed below the floor.
		"a lower id that commits late comes before the later events of its key": {
			relays: 1, leases: true, policy: "block", batch: 4000,
			steps: []step{
				{op: "insert", slot: 0, topic: "a", key: "k", count: 1},
				{op: "slow", lasts: 30 * time.Second},
				{op: "write", topic: "a", key: "l", count: 1, wait: 2 * time.Second},
				{op: "write", topic: "a", key: "l", count: 1, wait: time.Second},
				{op: "write", topic: "a", key: "l", count: 1, wait: time.Second},
				{op: "write", topic: "a", key: "l", count: 1, wait: time.Second},
				{op: "commit", slot: 0},
				{op: "write", topic: "a", key: "k", count: 1},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.repeat(t)
		})
	}
}

func (h history) repeat(t *testing.T) {
	for range 20 {
		if breaches := h.play(t); len(breaches) > 0 {
			t.Fatal(strings.Join(breaches, "\n"))
		}
	}
}
