package postgres

import "strings"

// queries are the statements with the names of the tables filled in. The fetch's
// are made by Open. Their texts stand in queries_*.go, by theme, each with the
// index it uses and the lock it takes.
type queries struct {
	readKeys, heldKeys                   string
	keep, drop, mark, bury               string
	promote                              string
	join, rivals, members, renew, fenced string
	evict, evictLanes, claim, release    string
	ringState                            string
	ring                                 [8]ringQueries
	pruneDead, beats, forget, lockLanes  string
	allLanes, pair                       string
	forgetBeat                           string
	orphanLanes                          string
	compete, arm                         string
	report                               string
	writers, floors                      string
}

func newQueries(c Config) queries {
	x := func(sql string) string {
		return c.expand(strings.NewReplacer("/hot/", hotRows, "/columns/", rowColumns, "/payload/", historyPayload(c.History),
			"/bell/", literal(c.expand("{{bell}}")), "/table/", literal(c.expand("{{outbox}}"))).Replace(sql))
	}
	return queries{
		readKeys: x(queryReadKeys), heldKeys: x(queryHeldKeys),
		keep: x(queryKeep), drop: x(queryDrop), mark: x(queryMark), bury: x(queryBury),
		promote: x(queryPromote),
		join:    x(queryJoin), rivals: x(queryRivals), members: x(queryMembers), renew: x(queryRenew), fenced: x(queryFenced),
		evict: x(queryEvict), evictLanes: x(queryEvictLanes), claim: x(queryClaim), release: x(queryRelease),
		ringState: x(queryRingState), ring: newRingQueries(c), allLanes: x(queryAllLanes), pair: x(queryPair),
		pruneDead: x(queryPruneDead), beats: x(queryBeats), forget: x(queryForget), lockLanes: x(queryLockLanes),
		orphanLanes: x(queryOrphanLanes), forgetBeat: x(queryForgetBeat),
		compete: x(queryCompete), arm: x(queryArm),
		report: x(queryReport), writers: x(queryWriters), floors: x(queryFloors),
	}
}
