package examples

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_FileTransfer sends a file from one process to another.
func TestRXE_FileTransfer(t *testing.T) {
	r := testutil.NeedLogic(t)
	program := testutil.NeedProgram(t, "file_transfer")
	data := make([]byte, 3_000_001)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := name + ".copy"
	server := exec.Command(program, "-b", r.IP[0], "-p", "21960", "-o", copied)
	var serverLog bytes.Buffer
	server.Stdout, server.Stderr = &serverLog, &serverLog
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }()
	var out []byte
	testutil.Eventually(t, "the server listens", func() bool {
		var err error
		out, err = exec.Command(program, "-s", r.IP[0], "-p", "21960", "-f", name).CombinedOutput()
		if err != nil {
			time.Sleep(10 * time.Millisecond)
		}
		return err == nil
	})
	if err := server.Wait(); err != nil {
		t.Fatalf("server: %v\n%s", err, &serverLog)
	}
	got, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) || !bytes.Equal(out, serverLog.Bytes()) {
		t.Errorf("%d bytes arrived of %d; client: %s; server: %s", len(got), len(data), out, &serverLog)
	}
}
