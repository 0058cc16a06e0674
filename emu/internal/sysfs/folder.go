//go:build linux

package sysfs

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

// prefix leads the folders' names, and ourName is all of one: what is called otherwise is not ours to remove.
const prefix = "pureverbs-emu-"

var ourName = regexp.MustCompile("^" + prefix + "[0-9]+$")

// makeFolder makes a folder and locks it, for as long as lock is open. Folders of emulators that were killed go.
func makeFolder(in string) (dir string, lock *os.File, err error) {
	sweep(in)
	for {
		if dir, err = os.MkdirTemp(in, prefix); err != nil {
			return "", nil, err
		}
		if lock, err = hold(dir, 0); err == nil || !os.IsNotExist(err) {
			return dir, lock, err
		}
		// Another one's sweep came before the lock.
	}
}

// hold locks a folder that is still there.
func hold(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|how)
	st, err1 := f.Stat()
	now, err2 := os.Lstat(dir)
	if err = cmp.Or(err, err1, err2); err == nil && !os.SameFile(st, now) {
		err = os.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the user's folders that nobody holds.
func sweep(in string) {
	entries, _ := os.ReadDir(in)
	for _, e := range entries {
		if !e.IsDir() || !ourName.MatchString(e.Name()) {
			continue
		}
		dir := filepath.Join(in, e.Name())
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil || int(st.Uid) != os.Geteuid() {
			continue
		}
		if f, err := hold(dir, unix.LOCK_NB); err == nil {
			_ = os.RemoveAll(dir)
			f.Close()
		}
	}
}
