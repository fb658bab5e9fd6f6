// Package file publishes events as JSON lines: to a file, which is appended to,
// or to any writer, such as standard output.
//
// Accepted means that the line is whole in the file and synced to its disk,
// unless [Config.NoSync] is set; on a writer, that the writer took it.
//
// # What a line is
//
//	{"identity":"…","topic":"orders","key":"42","type":"created","content_type":"application/json",
//	 "created":"2026-01-02T03:04:05.678Z","headers":{…},"payload":{…}}
//
// payload holds the payload's own bytes where they are JSON on one line, whatever
// the content type says; payload_text a text, payload_base64 anything else; none
// of the three is a tombstone. So a line always is one line and valid JSON, and
// the bytes come back exactly. See [Line].
//
// # Whole lines
//
// All lines of a call are one write, behind O_APPEND, so several relays may share
// a file on a local disk; a lock makes the write and the repair after a failed one
// theirs alone. A write that breaks off (disk full) leaves half a line; the file
// is cut back to where it was. If that fails too, or a process was killed in a
// write, the next call ends the torn line first: a reader sees one line that is
// no JSON, and loses none.
package file
