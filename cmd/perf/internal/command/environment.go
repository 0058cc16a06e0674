package command

// environment lists the variables that this program reads, what it takes from them, and the options that win over
// them, for the manual page. Variables that the libraries below it read are not listed.
var environment = []struct{ names, means, options string }{
	{"RDMAPERF_TOKEN", "token of the agents", "--token-file"},
	{"RDMAPERF_TEST_SECRET", "secret of one test, which both ends need; an agent gives it to the tests that it runs",
		""},
	{"RDMAPERF_JOIN", "where the mesh of rdmaperf serve --join listens", "--join ADDRESS:PORT"},
	{"OMPI_COMM_WORLD_RANK PMI_RANK SLURM_PROCID JOB_COMPLETION_INDEX",
		"rank of this process: rdmaperf mesh measures " +
			"as rank 0, or joins it. An agent reports it",
		"--hosts, --hostfile, --service, --launch, --job-from"},
	{"OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_NTASKS", "number of ranks", "the same, and --expect"},
	{"SLURM_STEP_NODELIST SLURM_JOB_NODELIST", "names of the hosts that have to come; the first is that of rank 0",
		"--hosts, --hostfile, --service; --join for rank 0"},
	{"SLURM_LAUNCH_NODE_IPADDR", "another address of rank 0", "--join"},
	{"SLURM_JOB_ID SLURM_STEP_ID", "which ranks belong together", ""},
	{"SLURMD_NODENAME NODE_NAME", "name of an agent's host (else its host name)", ""},
	{"KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT", "the API server, for rdmaperf mesh --job-from", ""},
	{"RDMAPERF_RUN RDMAPERF_RUN_UID", "Job of the pod that rdmaperf mesh --job-from runs in: name (else the host " +
		"name is the run's) and UID", ""},
	{"NOTIFY_SOCKET", "where systemd waits for rdmaperf serve", ""},
	{"SUDO_USER", "a hint in errors: sudo drops the variables above", ""},
	{"MLX5_SCATTER_TO_CQE", "rdmaperf with device or GPU memory sets it to 0 and starts again", ""},
	{"PUREVERBS_HW_FRAMES", "1: rdmaperf selftest sends raw frames", "rdmaperf selftest --frames"},
}
