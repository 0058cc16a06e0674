package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

const deployed = "../../../../deploy/"

// needDeploy skips a test that runs without the sources.
func needDeploy(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(deployed); err != nil {
		t.Skip("the sources are not here")
	}
}

// meshLine returns what rdmaperf mesh makes of a command line.
func meshLine(words []string, env map[string]string) (*meshOptions, error) {
	var m meshOptions
	f := pflag.NewFlagSet("rdmaperf mesh", pflag.ContinueOnError)
	m.flags(f)
	return &m, errors.Join(f.Parse(words), m.check(f, func(name string) string { return env[name] }))
}

// cron is what the test reads of a CronJob of the manifests.
type cron struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		JobTemplate struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Name    string
							Command []string
							Ports   []struct {
								ContainerPort int `yaml:"containerPort"`
							}
							VolumeMounts []struct {
								MountPath string `yaml:"mountPath"`
							} `yaml:"volumeMounts"`
						}
					}
				}
			}
		} `yaml:"jobTemplate"`
	}
}

// TestDeployKubernetes reads the command line of a run, and what its agents have of it.
func TestDeployKubernetes(t *testing.T) {
	needDeploy(t)
	read := func(name string) (c cron) {
		text, err := os.ReadFile(deployed + "kubernetes/base/" + name)
		if err == nil {
			err = yaml.Unmarshal(text, &c)
		}
		if err != nil || c.Kind != "CronJob" || len(c.Spec.JobTemplate.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("%s: %v: %+v", name, err, c)
		}
		return c
	}
	run, agents := read("mesh.yaml"), read("agents.yaml")
	c := run.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	m, err := meshLine(c.Command[2:], nil)
	if err != nil || m.from.ranked || m.config.Expect != 2 || m.testPorts != "18600-18999" ||
		m.from.listen != fmt.Sprintf(":%d", c.Ports[0].ContainerPort) {
		t.Errorf("%q: %v", c.Command, err)
	}
	a := agents.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	if m.kube.template != agents.Metadata.Name || len(a.Command) != 1 || a.Command[0] != c.Command[0] {
		t.Errorf("the run takes %s, whose command is %q", m.kube.template, a.Command)
	}
	if filepath.Dir(m.tokenFile) != a.VolumeMounts[0].MountPath {
		t.Errorf("the agents' token is in %s, that of the run is %s", a.VolumeMounts[0].MountPath, m.tokenFile)
	}
}

// TestDeploySlurm runs the batch file with a program that prints its arguments.
func TestDeploySlurm(t *testing.T) {
	needDeploy(t)
	dir := t.TempDir()
	err := os.WriteFile(filepath.Join(dir, "rdmaperf"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", deployed+"rdmaperf-mesh.sbatch", "-s", "8M", "--fail-slow")
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSpace(string(out)), "\n")
	m, err := meshLine(words[1:], nil)
	if err != nil || words[0] != "mesh" || !strings.HasPrefix(m.from.launch, "srun ") ||
		m.out.jsonFile != "rdmaperf-mesh-7.json" ||
		m.size != 8<<20 || !m.out.failSlow {
		t.Errorf("%q: %v", words, err)
	}
}

func TestDeployScripts(t *testing.T) {
	needDeploy(t)
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skipf("the scripts were not checked: %v (make setup installs it)", err)
	}
	for _, f := range []string{"rdmaperf-mesh.sbatch", "image"} {
		if out, err := exec.Command("shellcheck", deployed+f).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
	}
}
