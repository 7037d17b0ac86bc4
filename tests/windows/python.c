/* python.exe: the main program of CPython, or in a virtual environment the start of the Python that made it. */
#include <stdio.h>
#include <windows.h>

static BOOL WINAPI ignored(DWORD event) {
  return event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT; /* they are for the child */
}

static int started(wchar_t *program, wchar_t *self) {
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
  STARTUPINFOW start = {sizeof start};
  PROCESS_INFORMATION child;
  DWORD status = 101;
  HANDLE job = CreateJobObjectW(NULL, NULL);
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK;
  SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
  SetEnvironmentVariableW(L"__PYVENV_LAUNCHER__", self);
  SetConsoleCtrlHandler(ignored, TRUE);
  GetStartupInfoW(&start);
  if (CreateProcessW(program, GetCommandLineW(), NULL, NULL, TRUE, 0, NULL, NULL, &start, &child)) {
    AssignProcessToJobObject(job, child.hProcess);
    WaitForSingleObject(child.hProcess, INFINITE);
    GetExitCodeProcess(child.hProcess, &status);
  }
  return status;
}

int wmain(int count, wchar_t **words) {
  wchar_t self[4096], path[4096], line[4096];
  GetModuleFileNameW(NULL, self, 4096);
  wcscpy(path, self);
  for (int above = 0; above < 2 && wcsrchr(path, L'\\'); above++) *wcsrchr(path, L'\\') = 0;
  FILE *settings = _wfopen(wcscat(path, L"\\pyvenv.cfg"), L"rt, ccs=UTF-8");
  while (settings && fgetws(line, 4000, settings)) {
    if (wcsncmp(line, L"home = ", 7)) continue;
    line[wcscspn(line, L"\r\n")] = 0;
    return started(wcscat(line, L"\\python.exe") + 7, self);
  }
  HMODULE python = LoadLibraryW(L"python311.dll");
  return python ? ((int (*)(int, wchar_t **))(void *)GetProcAddress(python, "Py_Main"))(count, words) : 101;
}
