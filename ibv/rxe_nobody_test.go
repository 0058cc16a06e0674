package ibv

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// nobodyEnv tells a child which part of TestRXE_Nobody it is.
const nobodyEnv = "PUREVERBS_TEST_NOBODY"

// asNobody runs this test again in a child without privileges, and reports
// whether this is the child.
func asNobody(t *testing.T, part string) bool {
	t.Helper()
	if os.Getenv(nobodyEnv) == part {
		return true
	}
	if os.Geteuid() != 0 && testutil.NeedRXE(t).Hardware {
		t.Skip("starts a process of the user nobody: needs root")
	}
	// The user nobody may not be able to reach the binary where it is.
	dir, err := os.MkdirTemp("/tmp", "nobody")
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ok(t, os.Chmod(dir, 0o755))
	self, err := os.ReadFile("/proc/self/exe")
	ok(t, err)
	exe := filepath.Join(dir, "test")
	ok(t, os.WriteFile(exe, self, 0o755))
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), nobodyEnv+"="+part)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	t.Logf("as nobody:\n%s", bytes.TrimSpace(out))
	if err != nil {
		t.Errorf("as nobody: %v", err)
	}
	if !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Error("the child did not pass the test")
	}
	return false
}

// uverbsMode sets the mode of the device files for the time of the test.
func uverbsMode(t *testing.T, mode os.FileMode) {
	t.Helper()
	files, err := filepath.Glob("/dev/infiniband/uverbs*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no uverbs files (%v)", err)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		ok(t, err)
		ok(t, os.Chmod(f, mode))
		t.Cleanup(func() { _ = os.Chmod(f, st.Mode().Perm()) })
	}
}

func TestRXE_NoPermission(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t) // modes of device files
	if os.Getenv(nobodyEnv) == "" {
		uverbsMode(t, 0o600)
	}
	if !asNobody(t, "permission") {
		return
	}
	_, err := Open(rxe.Dev[0])
	var p *PermissionError
	if !errors.As(err, &p) {
		t.Fatalf("%#v is no PermissionError", err)
	}
	wantErr(t, err, syscall.EACCES, "/dev/infiniband/uverbs0", "its mode is 0600", "this process runs as user 65534")
	_, err = Open("")
	wantErr(t, err, ErrNoDevice, "/dev/infiniband/uverbs")
	if devs := must(Devices())(t); len(devs) != 2 {
		t.Errorf("%d devices are listed without permission to open them, want 2", len(devs))
	}
}

func TestRXE_Memlock(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	rxe.NeedKernel(t) // RLIMIT_MEMLOCK
	const limit = 256 << 10
	if os.Getenv(nobodyEnv) == "" {
		uverbsMode(t, 0o666)
	}
	if !asNobody(t, "memlock") {
		return
	}
	s := &side{}
	s.dev = closing(t, must(Open(rxe.Dev[0]))(t))
	s.pd = closing(t, must(s.dev.AllocPD())(t))
	ok(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: limit, Max: limit}))
	mr := closing(t, must(s.pd.AllocMR(64<<10, LocalWrite, nil))(t))
	mr.Bytes()[0] = 1
	_, err := s.pd.AllocMR(4*limit, LocalWrite, nil)
	var m *MemlockError
	if !errors.As(err, &m) || m.Cur != limit || m.Bytes != 4*limit {
		t.Fatalf("%#v does not tell the limit", err)
	}
	wantErr(t, err, syscall.ENOMEM, "256 KiB", "1 MiB", "RLIMIT_MEMLOCK")
	_, err = s.pd.RegMR(make([]byte, 4*limit), LocalWrite)
	wantErr(t, err, syscall.ENOMEM, "256 KiB")
}

// TestRXE_RawNobody: a user without CAP_NET_RAW has no raw packet QP.
func TestRXE_RawNobody(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if os.Getenv(nobodyEnv) == "" && soft(rxe) {
		uverbsMode(t, 0o666)
	}
	if !asNobody(t, "raw packet") {
		return
	}
	s := &side{}
	s.dev = closing(t, must(Open(rxe.Dev[0]))(t))
	s.pd = closing(t, must(s.dev.AllocPD())(t))
	s.cq = closing(t, must(s.dev.CreateCQ(8, nil))(t))
	recv := closing(t, must(s.dev.CreateCQ(8, nil))(t)) // it shares no CQ on the direct data path
	_, err := s.pd.CreateQP(s.cq, recv, &QPOptions{Type: RawPacket})
	wantErr(t, err, syscall.EPERM, "CAP_NET_RAW")
}
