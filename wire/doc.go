// Package wire makes what an event looks like on the wire: the attributes and
// the body of each format, once for all brokers. A broker only spells them in
// its protocol's way.
//
//	relay:   enc.Encode(event)  ──► headers, content type, body
//	broker:  for name, value := range wire.Respell(headers, "ce_") { … }
//
// It also holds destination templates ("orders.{topic}"), since they are made
// from the same event.
//
// It is not a schema registry and no codec: a payload is never decoded. The
// tables of docs/wire.md say what each format becomes in each protocol.
package wire
