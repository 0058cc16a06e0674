package native

// groups are the rows by package and reason.
var groups = []group{
	{"ibv", needsOps, `TestRXE_NumbersOfTheTable TestRXE_TrueSizes TestRXE_RegistersOfTheirOwn TestRXE_Faults
		TestRXE_ServiceLevel TestRXE_ResizeSRQ TestRXE_MWOldLibrary TestRXE_TagMatchingRefused TestRXE_Signatures
		TestRXE_SameWords TestRXE_RawNobody`},
	{"ibv", needsC, `TestRXE_Adopt`},
	{"ibv", needsLibrary, `TestRXE_MWUnknownProvider`},
	{"ibv", lacks("FieldWallClock", `the ops data path|completions with WallClock`), `TestRXE_WallClockUpdate
		TestRXE_Fields`},
	{"ibv", lacks("counters", `counters of steering rules is not supported`), `TestRXE_FlowOrder`},

	{"mlx5dv", needsOps, `TestRXECreateCQ TestRXEFaults TestRXEMkeyRoom TestRXEMkeyBytes TestRXEViewRefused
		TestRXEWQRaw TestRXEZZDeviceRemoved TestRXERawBytes`},
	{"mlx5dv", lacks("mlx5dv", library), `TestRXEDevX_Path TestRXEDirectRules TestRXEDM TestRXEScheduler
		TestRXEWQRefused`},

	{"cmd/perf", needsEFA, `TestRXE_Mismatch/device_limits`},
}
