package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// errNotOpen is returned by every method but New, Open and Close while the store
// is not open.
var errNotOpen = errors.New("store not open")

// errNotPrimary is returned when the server answers but cannot be written to:
// a standby, or a primary that was demoted. Its connections are discarded and
// the name is resolved again at the next try.
var errNotPrimary = errors.New("server is read-only or in recovery")

// SQLSTATEs that decide what is done next.
const (
	stateReadOnly         = "25006" // read_only_sql_transaction
	stateDuplicatePS      = "42P05" // a pooler mixed up sessions
	stateNoPS             = "26000"
	stateForbidden        = "42501" // insufficient_privilege
	stateNoDatabase       = "3D000"
	stateLockNotAvailable = "55P03" // lock_timeout has passed
)

func sqlState(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// isStale reports whether the pool's connections must not be trusted any more.
func isStale(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, errNotPrimary) {
		return true
	}
	switch state := sqlState(err); state {
	case stateReadOnly, stateDuplicatePS, stateNoPS:
		return true
	default:
		// 57P01 to 57P05: shut down, crashed, starting, database dropped, idle.
		return strings.HasPrefix(state, "57P") || strings.HasPrefix(state, "08")
	}
}

// wrap says what the store was doing, without credentials.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, redact(err))
}

// passwords finds them in what a server or a library may quote. The libraries
// redact their own; this is for what they pass on.
var passwords = regexp.MustCompile(`(?i)(://[^:/@\s]*:)[^@/\s]*(@)|(\bpassword\s*=\s*)(?:'[^']*'|[^\s'&]+)`)

// redacted is an error whose text holds no password. The chain stays, so that
// its causes can still be asked for.
type redacted struct {
	err  error
	text string
}

func (r *redacted) Error() string { return r.text }
func (r *redacted) Unwrap() error { return r.err }

func redact(err error) error {
	if err == nil {
		return nil
	}
	// A parse error quotes the string it could not parse, and a broken string may
	// hold its password where no pattern finds it: nothing of it is repeated.
	if _, ok := errors.AsType[*pgconn.ParseConfigError](err); ok {
		return errors.New("not a PostgreSQL connection string")
	}
	text := err.Error()
	clean := passwords.ReplaceAllString(text, "${1}${3}xxxxx${2}")
	if clean == text {
		return err
	}
	return &redacted{err, clean}
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(d.Milliseconds(), 1), 10)
}

// isTimeout reports whether a deadline ended the call.
func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
