//go:build linux

package guest

import (
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Rights are what the kernel checks of a thread when it looks at a file.
type Rights struct {
	UID, GID int    // those for files
	RUID     int    // the real one, which access(2) asks for
	RGID     int    // likewise
	Groups   []int  // in order
	Caps     uint64 // those in force in our user namespace
}

// RightsOf reads the rights of a thread.
func RightsOf(tid int) (r Rights, err error) {
	status := StatusOf(tid)
	ids := map[string][]int{}
	for _, key := range []string{"Uid", "Gid", "Groups"} {
		for _, w := range status.words(key) {
			n, err := strconv.Atoi(w)
			if err != nil {
				return r, ErrGone
			}
			ids[key] = append(ids[key], n)
		}
	}
	caps, ok := status.Number("CapEff", 16)
	if !ok || len(ids["Uid"]) != 4 || len(ids["Gid"]) != 4 {
		return r, ErrGone
	}
	r = Rights{
		UID: ids["Uid"][3], RUID: ids["Uid"][0],
		GID: ids["Gid"][3], RGID: ids["Gid"][0],
		Groups: ids["Groups"], Caps: caps,
	}
	slices.Sort(r.Groups)
	// Who is all-powerful in a user namespace of his own is nobody in ours.
	ours, err1 := os.Readlink("/proc/self/ns/user")
	theirs, err2 := os.Readlink(procPath(tid, "ns/user"))
	if err1 != nil || err2 != nil || ours != theirs {
		r.Caps = 0
	}
	return r, nil
}

// Real returns the rights that access(2) looks with.
func (r Rights) Real() Rights {
	if r.UID != r.RUID && r.RUID != 0 {
		r.Caps = 0
	}
	r.UID, r.GID = r.RUID, r.RGID
	return r
}

func (r Rights) same(o Rights) bool {
	ids := func(r Rights) [4]int { return [4]int{r.UID, r.GID, r.RUID, r.RGID} }
	return ids(r) == ids(o) && r.Caps == o.Caps && slices.Equal(r.Groups, o.Groups)
}

// Do calls f with these rights, as far as we have them. If they cannot be assumed, f is not called.
func (r Rights) Do(f func()) error {
	own, err := RightsOf(unix.Getpid())
	if err != nil {
		return err
	}
	if r.same(own) {
		f()
		return nil
	}
	done := make(chan error)
	go r.do(own.Caps, f, done)
	return <-done
}

func (r Rights) do(most uint64, f func(), done chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() { // the first thread stands for the process, and never ends: another has to do it
		defer runtime.UnlockOSThread()
		again := make(chan error)
		go r.do(most, f, again)
		done <- <-again
		return
	}
	// The thread is never unlocked: it ends with what it has become.
	err := r.become(most)
	if err == nil {
		f()
	}
	done <- err
}

// become changes this thread, and no other: the calls go past the library, which would change all.
func (r Rights) become(most uint64) error {
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := setgroups(r.Groups); err != nil {
		return err
	}
	uid, gid := uintptr(uint32(r.UID)), uintptr(uint32(r.GID))
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); e != 0 {
		return e
	}
	var data [2]unix.CapUserData
	for i := range data {
		c := uint32((r.Caps & most) >> (32 * i))
		data[i] = unix.CapUserData{Effective: c, Permitted: c}
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
}
