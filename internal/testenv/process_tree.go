//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A PostgreSQL server is a tree of processes, each in a session of its own, so
// no process group holds them. They are found through /proc; these calls work
// on Linux only.

// kill ends the server and all its children with SIGKILL, as a crash does. The
// main process is stopped first: it would react to the death of its children.
func (p *process) kill() error {
	if p.pid == 0 || p.exited() {
		return nil
	}
	tree, err := p.freeze()
	if err != nil {
		return err
	}
	for _, pid := range tree {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
	}
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); {
		if p.exited() && !anyAlive(tree) {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return fmt.Errorf("processes of %s survive SIGKILL", p.args[0])
}

// freeze stops every process of the tree with SIGSTOP, parents first, until no
// new child shows up, and returns the tree.
func (p *process) freeze() ([]int, error) {
	if p.pid == 0 {
		return nil, errors.New("server does not run")
	}
	stopped := map[int]bool{}
	for {
		tree, err := descendants(p.pid)
		if err != nil {
			return nil, err
		}
		fresh := false
		for _, pid := range tree {
			if stopped[pid] {
				continue
			}
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			stopped[pid], fresh = true, true
		}
		if !fresh {
			return tree, awaitStopped(tree)
		}
	}
}

// awaitStopped waits until no thread of the processes runs: a signal that was
// sent is not yet one that was taken, and until then the server still answers.
func awaitStopped(tree []int) error {
	deadline := time.Now().Add(grace)
	for _, pid := range tree {
		for !threadsStopped(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not stop", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// threadsStopped reports whether every thread of a process is stopped, or gone.
func threadsStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		// The state follows the name, which is in parentheses and may hold any.
		_, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X") {
			return false
		}
	}
	return true
}

// thaw wakes what freeze stopped.
func (p *process) thaw() error {
	if p.pid == 0 {
		return errors.New("server does not run")
	}
	tree, err := descendants(p.pid)
	if err != nil {
		return err
	}
	for _, pid := range tree {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	return nil
}

// descendants returns root and all processes below it, parents first.
func descendants(root int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	if len(stats) == 0 {
		return nil, errors.New("no /proc: processes can be killed and paused on Linux only")
	}
	children := map[int][]int{}
	for _, file := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if _, parent, ok := procStat(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree, nil
}

func anyAlive(pids []int) bool {
	for _, pid := range pids {
		// An orphan may stay a zombie where nobody collects orphans.
		if state, _, ok := procStat(pid); ok && state != "Z" && state != "X" {
			return true
		}
	}
	return false
}

// procStat reads a process's state and parent. The command's name, in
// parentheses, may itself hold spaces and parentheses: fields count from the
// last one.
func procStat(pid int) (state string, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, false
	}
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}
