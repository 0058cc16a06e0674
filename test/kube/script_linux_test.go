package kube

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo is a go command that has a go.mod of k8s.io/kubernetes, and builds empty programs.
const fakeGo = `#!/bin/sh
case $1,$2 in
mod,download) echo "{ \"GoMod\": \"$FAKE/kubernetes.mod\" }" ;;
build,*) while [ "$1" != -o ]; do shift; done; : >"$2"; chmod +x "$2" ;;
*) exit 1 ;;
esac
`

const itsModule = `module k8s.io/kubernetes

go 1.25.0

require (
	example.com/other v0.0.0-20250101000000-0123456789ab
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
	k8s.io/kube-openapi v0.0.0-20250910181357-589584f1c912
)

require (
	k8s.io/kube-proxy v0.0.0 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
)
`

// TestScript: Kubernetes' own modules have the number of its release, and no other module has.
func TestScript(t *testing.T) {
	script, err := filepath.Abs("../../scripts/kube")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go": fakeGo, "kubernetes.mod": itsModule} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("bash", script, dir+"/out", "kubectl")
	c.Env = append(os.Environ(), "FAKE="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(dir + "/out/module/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\texample.com/other v0.0.0-20250101000000-0123456789ab\n",
		"\tk8s.io/api v0.35.", "\tk8s.io/klog/v2 v2.130.1\n",
		"\tk8s.io/kube-openapi v0.0.0-20250910181357-589584f1c912\n",
		" // indirect\n", "\tk8s.io/api => k8s.io/api v0.35.",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("go.mod has no %q:\n%s", want, text)
		}
	}
}
