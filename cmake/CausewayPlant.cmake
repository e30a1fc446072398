# Copies a source and applies the patches of its planted bugs: cmake -DSOURCE=… -DCOPY=…
# -DPATCHES=FILE|FILE… -P CausewayPlant.cmake
execute_process(COMMAND ${CMAKE_COMMAND} -E copy ${SOURCE} ${COPY} COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "|" ";" patches "${PATCHES}")
foreach(patch ${patches})
  execute_process(COMMAND patch --batch --silent --forward --no-backup-if-mismatch --reject-file=-
                          ${COPY} ${patch}
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    file(REMOVE ${COPY})
    message(FATAL_ERROR "${patch} does not apply to ${SOURCE} any more: plant its bug anew, by "
      "hand, and write the difference into the patch (docs/decisions/0015-planted-bugs.md)\n${said}")
  endif()
endforeach()
file(READ ${COPY} text)
file(WRITE ${COPY} "#include \"base/testing/planted.h\"\n${text}")
