# cmake -DSOURCE=… -DFILE=… -P CausewayCommit.cmake: writes FILE, a header that defines
# CAUSEWAY_COMMIT, unless it says the same already. Run at every build, since a commit changes no
# source.
set(commit "unknown")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse HEAD
    OUTPUT_VARIABLE head RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    execute_process(COMMAND ${git} -C ${SOURCE} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes ERROR_QUIET)
    set(commit "${head}")
    if(changes)
      string(APPEND commit " and changes")
    endif()
  endif()
endif()
set(text "#define CAUSEWAY_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS ${FILE})
  file(READ ${FILE} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${FILE} "${text}")
endif()
