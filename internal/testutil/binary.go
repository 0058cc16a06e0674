package testutil

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BinariesEnv names the environment variable with the folder of the packages' test binaries, if a runner has them.
const BinariesEnv = "PUREVERBS_TEST_BINARIES"

// Binary returns the name of the test binary of a package of this module, as "test/random". It compiles the tests if
// no runner has.
func Binary(t testing.TB, dir string) string {
	t.Helper()
	name := strings.ReplaceAll(dir, "/", "-") + ".test"
	if folder := os.Getenv(BinariesEnv); folder != "" {
		bin := filepath.Join(folder, name)
		if _, err := os.Stat(bin); err == nil {
			return bin
		}
	}
	bin := filepath.Join(t.TempDir(), name)
	c := exec.Command("go", "test", "-c", "-vet=off", "-o", bin, "github.com/pureverbs/pureverbs/"+dir)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return bin
}
