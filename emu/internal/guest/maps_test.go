//go:build linux

package guest

import (
	"errors"
	"io"
	"os"
	"os/exec"
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

// TestMaps_Exec: a process that has become another program has that one's mappings, although the file of its mappings
// was open.
func TestMaps_Exec(t *testing.T) {
	c := exec.Command("sh", "-c", "echo; read line; exec cat")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer in.Close()
	line := func() {
		t.Helper()
		if _, err := out.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
	}
	program := func() uint64 {
		t.Helper()
		all, err := Mem{PID: c.Process.Pid}.Maps(0, 1<<47)
		if err != nil || len(all) == 0 {
			t.Fatalf("Maps = %v, %v", all, err)
		}
		return all[0].Inode
	}
	line()
	shell := program()
	for _, text := range []string{"\n", "text\n"} { // for the shell, and for cat
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
	}
	line()
	if cat := program(); cat == shell {
		t.Errorf("the program's inode is still %d", cat)
	}
}
