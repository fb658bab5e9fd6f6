//go:build unix

package testenv

import "syscall"

// These methods act on a private server and fail its test on an error, so they
// belong to the test's own goroutine. On a shared server they fail the caller
// with a panic: no test may disturb the others.

// Start starts the server after Kill or Stop, on the same port and data, and
// returns when it answers.
func (p *PG) Start() {
	p.own().Helper()
	p.check("start", p.start())
}

// Stop shuts the server down in good order (PostgreSQL's "fast" mode: clients
// are thrown out, everything is written).
func (p *PG) Stop() {
	p.own().Helper()
	p.check("stop", p.proc.stop(syscall.SIGINT))
}

// Kill ends all of the server's processes with SIGKILL, as a crash does, and
// returns when they are gone.
func (p *PG) Kill() {
	p.own().Helper()
	p.check("kill", p.proc.kill())
}

// Restart is Stop and Start.
func (p *PG) Restart() {
	p.own().Helper()
	p.Stop()
	p.Start()
}

// Pause stops every process of the server with SIGSTOP: connections stay open,
// new ones are accepted by the system, and nothing answers. Resume wakes them.
func (p *PG) Pause() {
	p.own().Helper()
	_, err := p.proc.freeze()
	p.check("pause", err)
}

// Resume ends Pause.
func (p *PG) Resume() {
	p.own().Helper()
	p.check("resume", p.proc.thaw())
}

// TerminateBackends ends the sessions that filter, a condition on
// pg_stat_activity, selects, for example "application_name = 'postrider'"; an
// empty filter means all client sessions. It returns their number. It may be
// used on a shared server with a filter on the test's own database.
func (p *PG) TerminateBackends(filter string) int {
	if filter == "" {
		filter = "true"
	}
	sql := `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
		AND (` + filter + `) AND pg_terminate_backend(pid, 5000)`
	pids, err := query(p.Admin(), sql)
	if p.tb != nil {
		p.check("terminate backends", err)
	} else if err != nil {
		panic(err)
	}
	return len(pids)
}

// LogFile is the path of the server's log.
func (p *PG) LogFile() string { return p.proc.logFile() }

func (p *PG) own() interface{ Helper() } {
	if p.tb == nil {
		panic("testenv: this server is shared; take a private one from StartPostgres")
	}
	return p.tb
}

func (p *PG) check(what string, err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatalf("%s PostgreSQL %d: %v", what, p.Version, err)
	}
}
