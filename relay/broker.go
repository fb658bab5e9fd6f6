package relay

import "context"

// Broker delivers events to one destination system. Safe for concurrent use.
type Broker interface {
	// Publish sends events and returns when the destination has durably
	// accepted or refused each of them, or ctx is done.
	//
	// The result has one error per event, in the order of events; nil means
	// accepted by the broker itself, not by its client. An event whose fate is
	// unknown is reported as an error: it is sent again.
	//
	// Events that share a Key reach the destination in slice order; after one
	// fails, the later ones of that key are not sent and report [ErrHeld].
	// Events with an empty Key are independent of each other.
	//
	// Publish does not retry, sleep or log, and keeps no event after it
	// returns. A send that outlives ctx must not let a later event of its key
	// pass.
	//
	// Errors say what to do by behaviour: [Unavailable], [Permanent],
	// [Rejected], [RetryAfter]. Any other error is of unknown cause and is
	// never counted against the event.
	Publish(ctx context.Context, events []Event) []error

	// Close releases connections and waits for nothing. It is safe to call
	// twice; Publish after Close returns an Unavailable error for each event.
	Close(ctx context.Context) error
}

// Destinationer is implemented by a broker of which parts fail apart from each
// other: a topic, an exchange with its routing key, a queue, a URL. Pause,
// back-off, probe and fairness are per destination. The default is the whole
// broker.
type Destinationer interface {
	// Destination names what fails as one with this event. It depends on
	// e.Destination, e.Topic and e.Key only.
	Destination(e Event) string
}

// Mixer is implemented by a broker that can take events of several
// destinations in one call without a slow destination delaying the rest. Calls
// to any other broker hold events of one destination.
type Mixer interface {
	MixesDestinations() bool
}

// Addresser is implemented by a broker whose destination names forbid some
// characters. The relay passes each token of a destination template that was
// filled from an event through EscapeToken.
type Addresser interface {
	// EscapeToken makes one token of an address safe, reversibly:
	// percent-encoding of the UTF-8 bytes that the broker's names forbid.
	// It is total: every string has an encoding, the empty one included.
	EscapeToken(token string) string
}

// TopicAddresser is implemented by an [Addresser] in whose names something may
// separate parts that a topic separates too, as the dots of "orders.created" on
// NATS. The token {topic} passes through EscapeTopic in place of EscapeToken.
type TopicAddresser interface {
	// EscapeTopic makes each part of a topic safe, as EscapeToken does, and
	// leaves the separators.
	EscapeTopic(topic string) string
}

// Checker is implemented by a broker that can say how durable its accept is.
type Checker interface {
	// Check asks the server what an operator should know about it. An error is an unreachable or refusing server.
	Check(ctx context.Context) ([]Finding, error)
}

// Finding is something an operator should know, with what to do about it.
type Finding struct {
	Problem, Hint string
}
