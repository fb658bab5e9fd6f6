package outbox

// ID identifies an event for ever: a UUID, version 7 where NewID makes it.
type ID [16]byte
