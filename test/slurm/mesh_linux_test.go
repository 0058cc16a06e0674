package slurm

import (
	"strings"
	"testing"
)

// quick are options of a mesh that is short.
var quick = []string{"-n", "20", "-s", "64", "--timeout", "5", "--retry", "20"}

func TestEmuSlurm_Good(t *testing.T) {
	c := need(t)
	j := c.submit(t, submission{sbatch: []string{"-N4"}, args: quick})
	if state, code := j.wait(t); state != "COMPLETED" || code != "0:0" || !strings.Contains(j.output(t), "[3] node4") {
		t.Errorf("%s, %s\n%s", state, code, j.output(t))
	}
}
