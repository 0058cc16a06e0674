//go:build linux

package guest

import (
	"errors"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMaps: the kernel's query and the text of /proc/PID/maps say the same.
func TestMaps(t *testing.T) {
	page := os.Getpagesize()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = f.Truncate(int64(4 * page))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), int64(page), 3*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
	if err := unix.Mprotect(b[page:2*page], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	m, at := Mem{PID: os.Getpid()}, addr(b)
	got, err := m.Maps(at, uint64(len(b)))
	if err != nil || len(got) != 3 {
		t.Fatalf("Maps = %+v, %v, want three", got, err)
	}
	for i, e := range got {
		if e.Start != at+uint64(i*page) || e.Offset != uint64((i+1)*page) || e.Inode == 0 || !e.Shared || !e.Read ||
			e.Write != (i != 1) {
			t.Errorf("mapping %d is %+v", i, e)
		}
	}
	fd, err := unix.Open(procPath(m.PID, "maps"), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	text, err := textMaps(fd, at, uint64(len(b)))
	if err != nil || !slices.Equal(text, got) {
		t.Errorf("the text says %+v, %v, and Maps %+v", text, err, got)
	}
	if _, err := (Mem{PID: 1 << 30}).Maps(at, 1); !errors.Is(err, ErrGone) {
		t.Errorf("Maps of no process: %v", err)
	}
}
