package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	name = "rdmaperf-agent.service"
	unit = "../../deploy/" + name
)

// analyze returns systemd-analyze's path.
func analyze(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(unit); err != nil {
		t.Skip("the sources are not here")
	}
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	return path
}

// root makes a folder that has the unit with its changes, and a program where the unit has it.
func root(t *testing.T, dropIn bool, edit ...string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{"usr/local/bin/rdmaperf": "#!/bin/sh\n"}
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(edit); i += 2 {
		if !bytes.Contains(text, []byte(edit[i])) {
			t.Fatalf("the unit has no %q", edit[i])
		}
		text = bytes.Replace(text, []byte(edit[i]), []byte(edit[i+1]), 1)
	}
	// Only this unit is read, so the program is given by its path in the folder.
	text = bytes.ReplaceAll(text, []byte("/usr/local/bin/rdmaperf"), []byte(dir+"/usr/local/bin/rdmaperf"))
	files["etc/"+name] = string(text)
	if dropIn {
		b, err := os.ReadFile(unit + ".d/no-credentials.conf")
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.ReplaceAll(b, []byte("/usr/local/bin/rdmaperf"), []byte(dir+"/usr/local/bin/rdmaperf"))
		b = bytes.ReplaceAll(b, []byte("User=rdmaperf-agent"), []byte("User=daemon")) // one that exists
		files["etc/"+name+".d/no-credentials.conf"] = string(b)
	}
	for f, text := range files {
		f = filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(f, "rdmaperf") {
			mode = 0o755
		}
		if err := os.WriteFile(f, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "etc", name)
}

// verify returns what systemd-analyze verify has to say of the unit, and not of those that it needs.
func verify(t *testing.T, path, file string) (said string) {
	t.Helper()
	c := exec.Command(path, "verify", "--man=no", file)
	c.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+filepath.Dir(file)+":")
	out, _ := c.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "rdmaperf-agent") {
			said += line
		}
	}
	return said
}

func TestUnit(t *testing.T) {
	path := analyze(t)
	for _, dropIn := range []bool{false, true} {
		_, file := root(t, dropIn)
		if said := verify(t, path, file); said != "" {
			t.Errorf("drop-in %v:\n%s", dropIn, said)
		}
		out, err := exec.Command(path, "security", "--offline=true", "--no-pager", "--threshold=25",
			file).CombinedOutput()
		if err != nil {
			t.Errorf("drop-in %v: %v\n%s", dropIn, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Log(lines[len(lines)-1])
	}
}

// TestUnit_Wrong shows that the verifier and the threshold find what they should.
func TestUnit_Wrong(t *testing.T) {
	path := analyze(t)
	for _, tt := range [][3]string{
		{"StartLimitIntervalSec=0", "StartLimitInterval=often", "often"},
		{"RestartSec=5", "RestartSecs=5", "RestartSecs"},
		{"Type=notify", "Type=notifies", "notifies"},
	} {
		_, file := root(t, false, tt[0], tt[1])
		if said := verify(t, path, file); !strings.Contains(said, tt[2]) {
			t.Errorf("%s: %q", tt[1], said)
		}
	}
	_, file := root(t, false, "CapabilityBoundingSet=\n", "", "ProtectSystem=strict\n", "",
		"SystemCallFilter=@system-service\n", "")
	if err := exec.Command(path, "security", "--offline=true", "--threshold=25", file).Run(); err == nil {
		t.Error("a unit without a sandbox is below the threshold")
	}
}

// TestUnit_Restarts: an adapter that comes late must not use up the restarts (systemd's limit is 5 in 10 s).
func TestUnit_Restarts(t *testing.T) {
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Skip("the sources are not here")
	}
	section := ""
	var got []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		switch key, _, _ := strings.Cut(line, "="); key {
		case "StartLimitIntervalSec", "RestartSec", "Restart":
			got = append(got, section+line)
		}
	}
	want := "[Unit]StartLimitIntervalSec=0 [Service]Restart=on-failure [Service]RestartSec=5"
	if strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
